// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "forecast/memory.hpp"
#include "sharding/schedule.hpp"
#include "small_run.hpp"
#include "train/ledger.hpp"

namespace shardmark::forecast {
namespace {

Strategy strategy(const std::string& name) {
  for (const Strategy& s : strategies)
    if (name == s.name) return s;
  throw std::logic_error("no strategy " + name);
}

Sharding sharding(const std::string& name, std::uint64_t S, Dtype param = Dtype::fp32,
                  Dtype reduce = Dtype::fp32) {
  Sharding result{strategy(name)};
  result.shard_size = result.strategy.shard_group == Strategy::ShardGroup::one ? 1 : S;
  result.param = param;
  result.reduce = reduce;
  return result;
}

struct Expected {
  const char* strategy;
  double between_steps, while_unsharded;
};

void expect_states(const std::vector<Expected>& rows, std::uint64_t S, Dtype param, Dtype reduce) {
  for (const Expected& row : rows) {
    const ModelState state = model_state(sharding(row.strategy, S, param, reduce));
    EXPECT_DOUBLE_EQ(state.between_steps(), row.between_steps) << row.strategy;
    EXPECT_DOUBLE_EQ(state.while_unsharded, row.while_unsharded) << row.strategy;
  }
}

TEST(ModelState, OfFullPrecisionByTheDesign) {
  for (const double b : {4.0, 8.0}) {
    const Dtype type = b == 4 ? Dtype::fp32 : Dtype::fp64;
    for (const double S : {2.0, 64.0})
      expect_states({{"ddp", 4 * b, 0},
                     {"zero1", 2 * b + 2 * b / S, 0},
                     {"zero2", 4 * b / S, b},
                     {"zero3", 4 * b / S, 0},
                     {"hybrid", 4 * b / S, 0}},
                    static_cast<std::uint64_t>(S), type, type);
  }
}

TEST(ModelState, Of16BitParametersByTheDesign) {
  for (const double g : {2.0, 4.0}) {
    const Dtype reduce = g == 2 ? Dtype::bf16 : Dtype::fp32;
    for (const double S : {2.0, 64.0})
      expect_states({{"ddp", 14 + g, 0},
                     {"zero1", 2 + g + 12 / S, 0},
                     {"zero2", (12 + g) / S, 2},
                     {"zero3", (12 + g) / S, 0},
                     {"hybrid", (12 + g) / S, 0}},
                    static_cast<std::uint64_t>(S), Dtype::bf16, reduce);
  }
}

TEST(ModelState, ByClass) {
  Sharding zero1 = sharding("zero1", 8, Dtype::fp16, Dtype::fp32);
  const ModelState state = model_state(zero1);
  EXPECT_EQ(state.parameters, 2);
  EXPECT_EQ(state.masters, 0.5);
  EXPECT_EQ(state.gradients, 4);
  EXPECT_EQ(state.optimizer, 1);
  zero1.optimizer_states = 1;
  EXPECT_EQ(model_state(zero1).optimizer, 0.5);
  EXPECT_EQ(model_state(sharding("zero3", 4, Dtype::fp32, Dtype::bf16)).gradients, 0.5);
}

TEST(ModelState, WholeGradientsWhileAccumulating) {
  Sharding zero3 = sharding("zero3", 8);
  zero3.accumulate_whole = true;
  EXPECT_DOUBLE_EQ(model_state(zero3).between_steps(), 12.0 / 8 + 4);
}

TEST(ModelState, AShardGroupOfOneHasNoCopiesButOf16BitParameters) {
  Sharding kept = sharding("zero2", 1);
  EXPECT_EQ(model_state(kept).on_device(), 16);
  kept.param = Dtype::bf16;
  EXPECT_EQ(model_state(kept).on_device(), 16 + 2);
}

TEST(ModelState, WhatCannotBeIsAnError) {
  Sharding wrong = sharding("ddp", 1);
  wrong.shard_size = 2;
  EXPECT_THROW(model_state(wrong), DeckError);
  wrong = sharding("zero1", 2);
  wrong.terms.offload = true;
  EXPECT_THROW(model_state(wrong), DeckError);
  EXPECT_THROW(model_state(sharding("zero3", 0)), DeckError);
  EXPECT_THROW(model_state(sharding("zero3", 2, Dtype::int32)), DeckError);
}

// S. Rajbhandari et al., SC 2020, figure 1: 7.5 billion parameters on 64 ranks, K = 12.
TEST(ModelState, OfTheZeroPaper) {
  struct Row {
    const char* strategy;
    double bytes, gigabytes;
  };
  for (const auto& [name, bytes, gigabytes] :
       {Row{"ddp", 16, 120}, Row{"zero1", 4 + 12.0 / 64, 31.4}, Row{"zero2", 2 + 14.0 / 64, 16.6},
        Row{"zero3", 16.0 / 64, 1.9}}) {
    Sharding paper = sharding(name, 64, Dtype::fp16, Dtype::fp16);
    paper.terms.keeps_16_bit_slice = true;
    EXPECT_DOUBLE_EQ(model_state(paper).on_device(), bytes) << name;
    EXPECT_NEAR(7.5 * model_state(paper).on_device(), gigabytes, 0.05) << name;
  }
}

TEST(Peak, IsThatOfTheDesign) {
  const Units units{100, {30, 70, 50, 70, 20}};
  const double all = 340, b = 2, g = 4;
  Sharding zero3 = sharding("zero3", 4, Dtype::bf16, Dtype::fp32);
  for (const int k : {0, 1, 2, 3}) {
    zero3.prefetch = k;
    const int r = std::max(1, k);
    const double expected = all * 16 / 4 + b * (100 + (k + 1) * 70) + g * (100 + (1 + r) * 70) + 1000;
    EXPECT_DOUBLE_EQ(peak_bytes(zero3, units, 1000), expected) << k;
  }
  zero3.prefetch = 100;  // no more units than there are
  EXPECT_DOUBLE_EQ(peak_bytes(zero3, units, 0), all * 4 + (b + g) * (100 + 5 * 70));
  Sharding zero2 = sharding("zero2", 4, Dtype::bf16, Dtype::fp32);
  EXPECT_DOUBLE_EQ(peak_bytes(zero2, units, 0), all * (4 + b) + g * (100 + 2 * 70));
  EXPECT_DOUBLE_EQ(peak_bytes(sharding("zero1", 4), units, 0), all * (8 + 8 / 4.0));
}

double factor(const Sharding& sharding, const Units& units, std::uint64_t replicas, std::uint64_t m) {
  const double S = static_cast<double>(std::max(sharding.shard_size, replicas));
  return step_traffic(sharding, units, replicas, m).total() / (S - 1) * S / (4.0 * 400);
}

TEST(StepTraffic, IsThatOfTheZeroPaper) {
  const Units rootless{0, {100, 100, 100, 100}};
  EXPECT_DOUBLE_EQ(factor(sharding("ddp", 1), rootless, 8, 1), 2);
  EXPECT_DOUBLE_EQ(factor(sharding("zero1", 8), rootless, 1, 1), 2);
  EXPECT_DOUBLE_EQ(factor(sharding("zero2", 8), rootless, 1, 1), 2);
  EXPECT_DOUBLE_EQ(factor(sharding("zero3", 8), rootless, 1, 1), 3);
  EXPECT_DOUBLE_EQ(factor(sharding("zero3", 8), Units{100, {100, 200}}, 1, 1), 2.75);
  EXPECT_DOUBLE_EQ(factor(sharding("zero1", 8), rootless, 1, 5), 2);
  EXPECT_DOUBLE_EQ(factor(sharding("zero3", 8), rootless, 1, 5), 15);
  Sharding accumulating = sharding("zero3", 8);
  accumulating.accumulate_whole = true;
  EXPECT_DOUBLE_EQ(factor(accumulating, rootless, 1, 5), 11);
  const StepTraffic mixed = step_traffic(sharding("zero3", 8, Dtype::bf16, Dtype::fp32), rootless, 1, 1);
  EXPECT_DOUBLE_EQ(mixed.gathers, 2 * 2.0 * 400 * 7 / 8);
  EXPECT_DOUBLE_EQ(mixed.reductions, 4.0 * 400 * 7 / 8);
  EXPECT_DOUBLE_EQ(step_traffic(sharding("hybrid", 4), rootless, 3, 2).all_reduces,
                   2 * 2.0 / 3 * 400 / 4 * 4);
}

// The schedule decides what a step does; the closed form must count the same.
TEST(StepTraffic, CountsWhatTheScheduleDoes) {
  const Units tied{100, {30, 70, 50}}, untied{100, {30, 70, 20}, true}, mlp{0, {30, 70, 20}, true};
  for (const Units& units : {tied, untied, mlp}) {
    const bool rooted = units.root > 0;
    std::vector<std::uint64_t> sizes = units.others;
    if (rooted) sizes.insert(sizes.begin(), units.root);
    ScheduleInput input;
    for (std::size_t u = 0; u < sizes.size(); ++u) {
      if (rooted && units.loss_in_last && u + 1 == sizes.size()) input.unit_of_stage.push_back(0);
      input.unit_of_stage.push_back(u);
    }
    if (!units.loss_in_last) input.unit_of_stage.push_back(0);
    input.is_root.assign(sizes.size(), false);
    input.is_root[0] = rooted;
    input.shard_size = 4;
    for (const Strategy& s : strategies) {
      for (const std::size_t m : {1, 3}) {
        if (s.shard_group == Strategy::ShardGroup::one) continue;
        input.strategy = s;
        input.micro_batches = m;
        const auto schedule = make_training_schedule(input);
        double gathers = 0, reductions = 0;
        for (std::size_t u = 0; u < sizes.size(); ++u) {
          gathers += 3.0 * static_cast<double>(sizes[u] * count(schedule, Verb::unshard, u));
          reductions += 3.0 * static_cast<double>(sizes[u] * count(schedule, Verb::reduce, u));
        }
        const StepTraffic traffic = step_traffic(sharding(s.name, 4), units, 1, m);
        EXPECT_DOUBLE_EQ(traffic.gathers, gathers) << s.name << " " << m;
        EXPECT_DOUBLE_EQ(traffic.reductions, reductions) << s.name << " " << m;
      }
    }
  }
}

// The ledger of a real run, with units as long as their padded buffers.
void expect_peak_of_a_run(const Communicator& world) {
  for (const StrategyCase& c : strategy_cases(world.size())) {
    const MemoryLedger ledger;
    SmallRun<float> run(world, c.overrides);
    run.trainer->step();
    Units units;
    for (const auto& unit : run.trainer->units()) units.others.push_back(unit.layout().total);
    units.root = units.others.front();
    units.others.erase(units.others.begin());
    Sharding sharding{run.config.parallel.strategy};
    sharding.shard_size = run.mesh.shard_size;
    sharding.prefetch = run.config.parallel.prefetch;
    sharding.shares = run.trainer->plan().residence.parameters == ParameterHome::common;
    const MemoryBytes peak = ledger.peak();
    double booked = 0;
    for (const MemoryClass held : {MemoryClass::parameters, MemoryClass::gradients, MemoryClass::optimizer,
                                   MemoryClass::unsharded_parameters, MemoryClass::unsharded_gradients})
      booked += static_cast<double>(peak[static_cast<int>(held)]);
    EXPECT_DOUBLE_EQ(peak_bytes(sharding, units, 0), booked) << c.name;
  }
}
TEST(Peak, IsWhatARunAllocates) {
  for (const char* backend : {"mpi", "auto"}) {
    SCOPED_TRACE(backend);
    expect_peak_of_a_run(*make_world_communicator(backend));
  }
}

// 16-bit copies of the masters' slices stay in common memory: 2/S a parameter for all slots of units.
TEST(ModelState, OfSharedParameters) {
  Sharding zero3 = sharding("zero3", 4, Dtype::bf16, Dtype::fp32);
  zero3.shares = true;
  EXPECT_DOUBLE_EQ(model_state(zero3).between_steps(), (2 + 4 + 4 + 8) / 4.0);
  EXPECT_DOUBLE_EQ(peak_bytes(zero3, {100, {200, 200}}, 0), 500 * 18 / 4.0 + 4 * (100 + 2 * 200));
  Sharding zero2 = sharding("zero2", 4);
  zero2.shares = true;
  EXPECT_DOUBLE_EQ(model_state(zero2).on_device(), 16 / 4.0);
}

TEST(ModelState, Table) {
  const std::string table = model_state_table(1000000000, 4, Dtype::bf16, Dtype::fp32);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + 5);
  EXPECT_NE(
      table.find("zero2          0.000    1.000     1.000     2.000      4.000            2.000     6.000\n"),
      std::string::npos)
      << table;
}

}  // namespace
}  // namespace shardmark::forecast
