// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardmark {

std::size_t Plan::parameter_count() const {
  std::size_t count = 0;
  for (const UnitLayout& layout : layouts) count += layout.elements;
  return count;
}

std::size_t micro_batches_for(std::uint64_t samples, int ranks, std::size_t micro_batch) {
  const std::uint64_t most = (samples + ranks - 1) / ranks;
  return (most + micro_batch - 1) / micro_batch;
}

Plan make_plan(const RunConfig& config, const Mesh& mesh) {
  Plan plan = make_plan(config, mesh.shard_size * mesh.replicas, mesh.shard_size,
                        shares_parameters(config.parallel, *mesh.shard_group));
  plan.schedule.summed_together = mesh.replica_group->grouped_bytes() / size_of(config.precision.reduce);
  return plan;
}

Plan make_plan(const RunConfig& config, int ranks, int shard_size, bool shares) {
  Plan plan;
  plan.ranks = ranks;
  plan.model = describe_model(config.model);
  std::vector<std::vector<Parameter>> units;
  std::vector<bool> is_root;
  for (const UnitSpec& unit : plan.model.units) {
    units.push_back(unit.parameters);
    is_root.push_back(unit.root);
  }
  std::vector<std::size_t> unit_of_stage;
  for (const StageSpec& stage : plan.model.stages) unit_of_stage.push_back(stage.unit);
  plan.units = group_units(units, is_root, unit_of_stage, config.parallel.unit_params);
  for (const auto& parameters : plan.units.parameters)
    plan.layouts.push_back(make_unit_layout(parameters, shard_size));

  const bool cast = config.precision.param != config.precision.master;
  plan.residence = residence(config.parallel.strategy, config.parallel.offload, shard_size, cast, shares);
  ScheduleInput& schedule = plan.schedule;
  schedule.unit_of_stage = plan.units.unit_of_stage;
  schedule.is_root = plan.units.is_root;
  schedule.strategy = config.parallel.strategy;
  schedule.shard_size = shard_size;
  schedule.replicas = ranks / shard_size;
  schedule.copies = plan.residence.copies;
  schedule.prefetch = config.parallel.prefetch;
  schedule.reductions_in_flight = config.parallel.reductions_in_flight();
  for (const UnitLayout& layout : plan.layouts) schedule.slices.push_back(layout.slice);
  schedule.micro_batches = micro_batches_for(config.train.global_batch, ranks, config.train.micro_batch);
  constexpr std::size_t most = 1 << 14;  // a schedule is a list in memory
  if (schedule.micro_batches > most)
    throw DeckError(
        fmt::format("train.global_batch = {} makes {} micro-batches a rank, at most {} are allowed: "
                    "raise train.micro_batch",
                    config.train.global_batch, schedule.micro_batches, most));
  return plan;
}

namespace {

/// Elements of the slots that the root, or all other units, share.
struct Slots {
  std::uint64_t parameters = 0, gradients = 0;
};
Slots slots_of(const Plan& plan, const ParallelConfig& parallel, bool root) {
  std::vector<std::size_t> totals;
  for (std::size_t u = 0; u < plan.layouts.size(); ++u)
    if (plan.units.is_root[u] == root) totals.push_back(plan.layouts[u].total);
  const auto sum = [](const std::vector<std::size_t>& sizes) {
    std::uint64_t total = 0;
    for (std::size_t size : sizes) total += size;
    return total;
  };
  Slots slots;
  if (plan.residence.parameters == ParameterHome::slot)
    slots.parameters =
        sum(slot_sizes(totals, !parallel.strategy.reshard_after_forward, parallel.prefetch + 1));
  if (!plan.residence.gradients_whole)
    slots.gradients = sum(slot_sizes(totals, false, parallel.reductions_in_flight() + 1));
  return slots;
}

}  // namespace

std::size_t snapshot_elements(const RunConfig& config, const Plan& plan) {
  const std::size_t states = state_names(config.optimizer).size();
  const Offload offload = config.parallel.offload;
  std::size_t tensors = 1 + states;
  if (!exec_is_host) tensors = (offload == Offload::all ? 1 : 0) + (offload == Offload::none ? 0 : states);
  const std::size_t R = plan.schedule.replicas;
  std::size_t own = 0;
  for (const UnitLayout& layout : plan.layouts) own += (layout.slice + R - 1) / R;
  return tensors * own;
}

MemoryBytes predict_memory(const RunConfig& config, const Plan& plan) {
  const std::uint64_t param = size_of(config.precision.param), reduce = size_of(config.precision.reduce),
                      master = size_of(config.precision.master);
  const bool cast = config.precision.param != config.precision.master;
  const Offload offload = config.parallel.offload;
  const std::uint64_t states = state_names(config.optimizer).size();
  std::uint64_t whole = 0, sliced = 0, largest_slice = 0;
  for (const UnitLayout& layout : plan.layouts) {
    whole += layout.total;
    sliced += layout.slice;
    largest_slice = std::max<std::uint64_t>(largest_slice, layout.slice);
  }

  MemoryBytes bytes = {};
  const auto add = [&](MemoryClass kind, std::uint64_t n) { bytes[static_cast<std::size_t>(kind)] += n; };
  const ParameterHome home = plan.residence.parameters;
  if (home != ParameterHome::slot)
    add(MemoryClass::parameters, (home == ParameterHome::own ? whole : sliced) * param);
  if (offload == Offload::all)
    add(MemoryClass::offloaded, sliced * master);
  else if (cast)
    add(MemoryClass::masters, sliced * master);
  else if (home == ParameterHome::slot)
    add(MemoryClass::parameters, sliced * master);
  add(MemoryClass::gradients, (plan.residence.gradients_whole ? whole : sliced) * reduce);
  add(offload == Offload::none ? MemoryClass::optimizer : MemoryClass::offloaded, states * sliced * master);
  if (offload != Offload::none)
    add(MemoryClass::staging, largest_slice * staging_slots(offload, states) * master);

  for (bool root : {true, false}) {
    const Slots slots = slots_of(plan, config.parallel, root);
    add(MemoryClass::unsharded_parameters, slots.parameters * param);
    add(MemoryClass::unsharded_gradients, slots.gradients * reduce);
  }
  const ActivationBytes model = activation_bytes(config.model, config.activations(), param, master);
  add(MemoryClass::activations, model.activations);
  add(MemoryClass::logits, model.logits);
  if (config.checkpoint.async) add(MemoryClass::checkpoint, snapshot_elements(config, plan) * master);
  const bool saves = config.checkpoint.async || config.checkpoint.at_start || config.checkpoint.every > 0;
  if (!exec_is_host && saves) {  // mirrors of what is not in host memory
    if (offload != Offload::all) add(MemoryClass::checkpoint, sliced * master);
    if (offload == Offload::none) add(MemoryClass::checkpoint, states * sliced * master);
  }
  return bytes;
}

TrafficByKind predict_traffic(const RunConfig& config, const Plan& plan) {
  TrafficByKind traffic = {};
  const auto add = [&](Collective kind, std::uint64_t calls, std::uint64_t bytes_each) {
    traffic[static_cast<std::size_t>(kind)].calls += calls;
    traffic[static_cast<std::size_t>(kind)].bytes += calls * bytes_each;
  };
  const std::uint64_t S = plan.schedule.shard_size, R = plan.schedule.replicas;
  const std::uint64_t param = size_of(config.precision.param), reduce = size_of(config.precision.reduce);
  const auto unshards = counts_in_step(plan.schedule, Verb::unshard),
             reductions = counts_in_step(plan.schedule, Verb::reduce),
             all_reductions = counts_in_step(plan.schedule, Verb::all_reduce);
  for (std::size_t u = 0; u < plan.layouts.size(); ++u) {
    const std::uint64_t slice = plan.layouts[u].slice;
    add(Collective::all_gather, unshards[u], slice * (S - 1) * param);
    add(Collective::reduce_scatter, reductions[u], slice * (S - 1) * reduce);
    add(Collective::all_reduce, all_reductions[u], 2 * (slice * reduce * (R - 1) / R));
  }
  return traffic;
}

}  // namespace shardmark
