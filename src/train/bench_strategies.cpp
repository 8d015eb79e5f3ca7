// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/bench_strategies.hpp"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/device.hpp"
#include "layers/gemm.hpp"
#include "train/metrics.hpp"
#include "train/precision_dispatch.hpp"
#include "train/preflight.hpp"
#include "train/trainer.hpp"

namespace shardmark {

namespace {

/// What one strategy was seen to do.
struct Row {
  std::string strategy;
  std::string refused;  ///< why it did not run
  MemoryBytes memory = {};
  std::uint64_t traffic = 0;  ///< bytes of this rank in a step
  std::vector<double> seconds;
  double loss = 0;
};

std::uint64_t of(const MemoryBytes& memory, std::initializer_list<MemoryClass> kinds) {
  std::uint64_t sum = 0;
  for (MemoryClass kind : kinds) sum += memory[static_cast<std::size_t>(kind)];
  return sum;
}

std::uint64_t total(const TrafficByKind& traffic) {
  std::uint64_t bytes = 0;
  for (const Traffic& one : traffic) bytes += one.bytes;
  return bytes;
}

/// One round of one strategy: a trainer of its own, one step to warm up, then the timed ones.
template <class T, class G>
void run_round(const RunConfig& config, const Communicator& world, const Dataset& dataset, int steps,
               Row& row) {
  const MemoryLedger ledger;
  Mesh mesh = make_mesh(world, config.parallel.shard_size_for(world.size()));
  const MemoryBytes predicted = predict_memory(config, make_plan(config, mesh));
  try {
    require_memory(world, predicted);
  } catch (const EnvironmentError& error) {
    row.refused = error.what();
    return;
  }
  Trainer<T, G> trainer(config, world, mesh, dataset);
  trainer.step();
  const TrafficByKind before = measured_traffic(mesh);
  for (int i = 0; i < steps; ++i) {
    world.barrier();
    const auto start = std::chrono::steady_clock::now();
    row.loss = trainer.step().loss;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    row.seconds.push_back(world.host_max(seconds.count()));
  }
  row.traffic = (total(measured_traffic(mesh)) - total(before)) / steps;
  row.memory = ledger.peak();
}

std::string table(const std::vector<Row>& rows, double items, const std::string& item_name) {
  std::string text = fmt::format("{:<8}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>12}{:>8}\n", "strategy",
                                 "state MB", "units MB", "activ. MB", "total MB", "sent MB", "s/step",
                                 item_name + "/s", "of ddp", "loss");
  double ddp = 0;
  for (const Row& row : rows) {
    if (!row.refused.empty()) {
      text += fmt::format("{:<8} not run: {}\n", row.strategy, row.refused);
      continue;
    }
    const double seconds = summarize(row.seconds).median;
    if (row.strategy == "ddp") ddp = seconds;
    std::uint64_t state = 0;
    for (MemoryClass kind : model_state_classes) state += of(row.memory, {kind});
    text += fmt::format(
        "{:<8}{:>11.2f}{:>11.2f}{:>11.2f}{:>11.2f}{:>11.3f}{:>11.4f}{:>11.1f}{:>12}{:>8.4f}\n", row.strategy,
        state / 1e6,
        of(row.memory,
           {MemoryClass::unsharded_parameters, MemoryClass::unsharded_gradients, MemoryClass::staging}) /
            1e6,
        of(row.memory, {MemoryClass::activations, MemoryClass::logits}) / 1e6, sum_of(row.memory) / 1e6,
        row.traffic / 1e6, seconds, items / seconds, ddp > 0 ? fmt::format("{:.3f}", ddp / seconds) : "n/a",
        row.loss);
  }
  return text;
}

void write_json(const std::string& path, const std::vector<Row>& rows, int ranks, double items) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json memory;
    for (std::size_t i = 0; i < row.memory.size(); ++i) memory[memory_class_names[i]] = row.memory[i];
    all.push_back({{"strategy", row.strategy},
                   {"ranks", ranks},
                   {"refused", row.refused},
                   {"memory_rank0_bytes", memory},
                   {"traffic_rank0_bytes_per_step", row.traffic},
                   {"step_seconds", row.seconds},
                   {"items_per_step", items},
                   {"loss", row.loss}});
  }
  if (!(std::ofstream(path) << all.dump(2) << std::endl)) throw EnvironmentError(path + ": can't be written");
}

}  // namespace

ExitCode bench_strategies(const BenchStrategiesOptions& options) {
  const auto bootstrap = make_world_communicator("mpi");
  const DeckSource source = read_deck(*bootstrap, options.deck, options.overrides);
  std::vector<Row> rows;
  std::vector<RunConfig> configs;
  for (const Strategy& strategy : strategies) {
    // What only some strategies can do is left to each.
    std::vector<std::string> own = {std::string("parallel.strategy=") + strategy.name,
                                    "parallel.reshard_after_forward=auto", "parallel.accumulate=auto"};
    if (strategy.shard_group != Strategy::ShardGroup::chosen) own.push_back("parallel.shard_size=0");
    if (strategy.parameters_whole) own.insert(own.end(), {"parallel.offload=none", "parallel.unshard=auto"});
    Deck deck = source.with(own);
    configs.push_back(read_run_config(deck));
    rows.push_back({});
    rows.back().strategy = strategy.name;
  }
  const RunConfig& first = configs.front();
  const auto world = make_world_communicator(first.comm_backend);
  require_own_devices(*world, device_uuid(), first.comm_share_device);
  choose_gemm(first.precision.param, first.precision.gemm, first.precision.tf32);
  const auto dataset = make_dataset(first.data, sample_shape(first.model), first.train.seed);
  with_precision(first.precision, [&]<class T, class G>() {
    for (int round = 0; round < options.rounds; ++round)
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows[i].refused.empty()) run_round<T, G>(configs[i], *world, *dataset, options.steps, rows[i]);
  });
  const double terms =
      dataset->has_tokens() ? static_cast<double>(describe_model(first.model).terms_per_sample) : 1.0;
  const double items = terms * static_cast<double>(first.train.global_batch);
  const int chosen = configs.back().parallel.shard_size, on_node = world->ranks_on_node();
  world->agree([&] {
    if (world->rank() != 0) return;
    fmt::print("{} ranks, {}, rank 0, medians of {} steps in {} turns; hybrid shards over {} ranks\n{}",
               world->size(), name_of(first.precision.param), options.steps * options.rounds, options.rounds,
               chosen == 0 ? on_node : chosen,
               table(rows, items, dataset->has_tokens() ? "tokens" : "samples"));
    if (!options.json.empty()) write_json(options.json, rows, world->size(), items);
  });
  return ExitCode::success;
}

}  // namespace shardmark
