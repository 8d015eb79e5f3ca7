// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "forecast/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/error.hpp"

namespace shardmark::forecast {

namespace {

bool is_16_bit(Dtype dtype) {
  return dtype == Dtype::bf16 || dtype == Dtype::fp16;
}

bool is_floating(Dtype dtype) {
  return is_16_bit(dtype) || dtype == Dtype::fp32 || dtype == Dtype::fp64;
}

void check(const Sharding& sharding) {
  const Strategy& strategy = sharding.strategy;
  if (sharding.shard_size == 0) throw DeckError("forecast: the shard group needs at least 1 rank");
  if (strategy.shard_group == Strategy::ShardGroup::one && sharding.shard_size != 1)
    throw DeckError(std::string("forecast: ") + strategy.name + " has a shard group of 1 rank");
  if (!is_floating(sharding.param) || !is_floating(sharding.reduce))
    throw DeckError("forecast: parameters and gradients must be fp32, fp64, bf16 or fp16");
  if (sharding.terms.offload && strategy.parameters_whole)
    throw DeckError(std::string("forecast: offload needs zero2, zero3 or hybrid; ") + strategy.name +
                    " computes with parameters that it keeps whole");
}

bool gathers_parameters(const Sharding& s) {
  return !s.shares && !s.strategy.parameters_whole &&
         (s.shard_size > 1 || is_16_bit(s.param) || s.terms.offload);
}

bool keeps_gradients_whole(const Sharding& s) {
  return s.strategy.gradients_whole || s.accumulate_whole;
}

/// Gradients pass through buffers of whole units on their way to the shards.
bool moves_gradients(const Sharding& s) {
  return s.terms.offload || (s.shard_size > 1 && !keeps_gradients_whole(s));
}

double total(const Units& units) {
  return static_cast<double>(std::accumulate(units.others.begin(), units.others.end(), units.root));
}

/// Parameters of the root and of up to `slots` others, each as large as the largest.
double root_and(int slots, const Units& units) {
  const auto largest = std::max_element(units.others.begin(), units.others.end());
  if (largest == units.others.end()) return static_cast<double>(units.root);
  const auto held = std::min<std::uint64_t>(slots, units.others.size());
  return static_cast<double>(units.root + held * *largest);
}

}  // namespace

ModelState model_state(const Sharding& sharding) {
  check(sharding);
  const Strategy& strategy = sharding.strategy;
  const auto S = static_cast<double>(sharding.shard_size);
  const auto b = static_cast<double>(size_of(sharding.param)),
             g = static_cast<double>(size_of(sharding.reduce));
  const bool mixed = is_16_bit(sharding.param);
  const double master = mixed ? 4 : b;

  ModelState state;
  if (mixed) state.masters = master / S;
  if (strategy.parameters_whole)
    state.parameters = b;
  else if (!mixed || sharding.shares || (sharding.terms.keeps_16_bit_slice && strategy.reshard_after_forward))
    state.parameters = b / S;
  state.gradients = keeps_gradients_whole(sharding) ? g : g / S;
  state.optimizer = static_cast<double>(sharding.optimizer_states) * master / S;
  if (sharding.terms.separate_buckets && strategy.shard_group == Strategy::ShardGroup::one) state.buckets = g;
  if (gathers_parameters(sharding) && !strategy.reshard_after_forward) state.while_unsharded = b;
  state.offloaded = sharding.terms.offload;
  return state;
}

double peak_bytes(const Sharding& sharding, const Units& units, double activations) {
  double bytes = total(units) * model_state(sharding).on_device() + activations;
  if (gathers_parameters(sharding) && sharding.strategy.reshard_after_forward)
    bytes += static_cast<double>(size_of(sharding.param)) * root_and(sharding.prefetch + 1, units);
  if (moves_gradients(sharding))
    bytes +=
        static_cast<double>(size_of(sharding.reduce)) * root_and(1 + std::max(1, sharding.prefetch), units);
  return bytes;
}

StepTraffic step_traffic(const Sharding& sharding, const Units& units, std::uint64_t replicas,
                         std::uint64_t micro_batches) {
  check(sharding);
  const Strategy& strategy = sharding.strategy;
  const auto S = static_cast<double>(sharding.shard_size), R = static_cast<double>(replicas),
             m = static_cast<double>(micro_batches);
  const double all = total(units);
  double gathered = strategy.parameters_whole ? all : m * all;
  if (strategy.reshard_after_forward) {
    const std::uint64_t last = units.loss_in_last && !units.others.empty() ? units.others.back() : 0;
    gathered += m * (all - static_cast<double>(units.root + last));
  }
  const double reduced = keeps_gradients_whole(sharding) ? all : m * all;
  const auto b = static_cast<double>(size_of(sharding.param)),
             g = static_cast<double>(size_of(sharding.reduce));
  return {(S - 1) / S * gathered * b, (S - 1) / S * reduced * g, 2 * (R - 1) / R * all / S * g};
}

std::string model_state_table(std::uint64_t parameters, std::uint64_t shard_size, Dtype param, Dtype reduce) {
  std::string table =
      fmt::format("{:<9}{:>11}{:>9}{:>10}{:>10}{:>11}{:>17}{:>10}\n", "strategy", "parameters", "masters",
                  "gradients", "optimizer", "all", "while unsharded", "GB");
  for (const Strategy& strategy : strategies) {
    Sharding sharding{strategy};
    sharding.shard_size = strategy.shard_group == Strategy::ShardGroup::one ? 1 : shard_size;
    sharding.param = param;
    sharding.reduce = reduce;
    const ModelState state = model_state(sharding);
    table +=
        fmt::format("{:<9}{:>11.3f}{:>9.3f}{:>10.3f}{:>10.3f}{:>11.3f}{:>17.3f}{:>10.3f}\n", strategy.name,
                    state.parameters, state.masters, state.gradients, state.optimizer, state.between_steps(),
                    state.while_unsharded, state.on_device() * static_cast<double>(parameters) / 1e9);
  }
  return table;
}

}  // namespace shardmark::forecast
