// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sharding/schedule.hpp"

namespace shardmark {
namespace {

// Root, four blocks, root (norm), and the head: the root's when tied, else unit 5.
ScheduleInput gpt(bool tied) {
  ScheduleInput input;
  input.unit_of_stage = {0, 1, 2, 3, 4, 0, tied ? std::size_t{0} : std::size_t{5}};
  input.is_root.assign(tied ? 5 : 6, false);
  input.is_root[0] = true;
  input.shard_size = 2;
  return input;
}

std::vector<ScheduleInput> all_inputs() {
  std::vector<ScheduleInput> inputs;
  for (bool tied : {true, false})
    for (const Strategy& strategy : strategies)
      for (int prefetch : {0, 1, 2, 3, 7})
        for (std::size_t micro_batches : {1, 2, 3})
          for (int shard_size : {1, 2})
            for (int replicas : {1, 2}) {
              ScheduleInput input = gpt(tied);
              input.strategy = strategy;
              input.prefetch = prefetch;
              input.reductions_in_flight = std::max(1, prefetch);
              input.micro_batches = micro_batches;
              input.shard_size = shard_size;
              input.replicas = replicas;
              inputs.push_back(input);
              if (replicas == 1) continue;
              input.slices.assign(input.is_root.size(), 10);
              input.summed_together = 25;
              inputs.push_back(input);
            }
  return inputs;
}

// Plays a schedule and checks every promise: what is used is there, bounds hold, nothing is left open.
void play(const ScheduleInput& in, const std::vector<Action>& schedule, bool training) {
  const bool whole_parameters = in.shard_size == 1;
  std::set<std::size_t> unshard_started, unsharded, open, reducing, all_reducing;
  std::vector<Action> computed;
  const auto others = [&](const std::set<std::size_t>& units) {
    return std::count_if(units.begin(), units.end(), [&](std::size_t u) { return !in.is_root[u]; });
  };
  for (const auto& [verb, index] : schedule) {
    switch (verb) {
      case Verb::begin_micro_batch:
        break;
      case Verb::unshard:
        ASSERT_TRUE(unshard_started.insert(index).second) << "unsharded twice";
        if (in.strategy.reshard_after_forward) {
          ASSERT_LE(others(unshard_started), in.prefetch + 1);
        }
        break;
      case Verb::wait_unsharded:
        ASSERT_TRUE(unshard_started.count(index) == 1 && unsharded.insert(index).second);
        break;
      case Verb::reshard:
        ASSERT_EQ(unsharded.erase(index), 1u);
        unshard_started.erase(index);
        break;
      case Verb::forward:
      case Verb::loss:
      case Verb::backward: {
        const std::size_t unit = in.unit_of_stage[index];
        ASSERT_TRUE(whole_parameters || unsharded.count(unit) == 1);
        if (training && verb != Verb::forward) {
          ASSERT_EQ(open.count(unit), 1u);
        }
        computed.push_back({verb, index});
        break;
      }
      case Verb::open_gradients:
        ASSERT_TRUE(reducing.count(index) == 0 && open.insert(index).second);
        if (!in.strategy.gradients_whole && in.shard_size > 1) {
          ASSERT_LE(others(open) + others(reducing), 1 + in.reductions_in_flight);
        }
        break;
      case Verb::reduce:
        ASSERT_EQ(open.erase(index), 1u);
        ASSERT_TRUE(reducing.insert(index).second);
        if (!in.is_root[index]) {
          ASSERT_LE(others(reducing), in.reductions_in_flight);
        }
        break;
      case Verb::wait_reduced:
        ASSERT_EQ(reducing.erase(index), 1u);
        break;
      case Verb::all_reduce:
        ASSERT_EQ(reducing.count(index), 0u);
        ASSERT_TRUE(all_reducing.insert(index).second);
        break;
      case Verb::wait_all_reduced:
        ASSERT_EQ(all_reducing.erase(index), 1u);
        break;
    }
  }
  EXPECT_TRUE(unsharded.empty() && unshard_started.empty() && reducing.empty() && all_reducing.empty());
  if (in.shard_size > 1) {
    EXPECT_TRUE(open.empty());
  }
  // Forward, loss, backward, for each micro-batch.
  std::vector<Action> expected;
  const std::size_t last = in.unit_of_stage.size() - 1;
  for (std::size_t m = 0; m < in.micro_batches; ++m) {
    for (std::size_t stage = 0; stage < last; ++stage) expected.push_back({Verb::forward, stage});
    expected.push_back({Verb::loss, last});
    for (std::size_t stage = last; training && stage-- > 0;) expected.push_back({Verb::backward, stage});
  }
  EXPECT_EQ(computed, expected);
}

TEST(Schedule, KeepsItsPromises) {
  for (const ScheduleInput& input : all_inputs()) {
    SCOPED_TRACE(std::string(input.strategy.name) + " k=" + std::to_string(input.prefetch) +
                 " micro-batches=" + std::to_string(input.micro_batches) +
                 " S=" + std::to_string(input.shard_size));
    play(input, make_training_schedule(input), true);
    play(input, make_evaluation_schedule(input), false);
  }
}

// How often each unit is gathered and reduced in a step, by strategy: block 1, the root, and an untied head.
TEST(Schedule, CountsOfCollectives) {
  struct Case {
    const char* strategy;
    std::size_t block_gathers, root_gathers, head_gathers, reductions;
  };
  const std::size_t M = 3;
  for (const Case& c :
       {Case{"zero1", 1, 1, 1, 1}, Case{"zero2", M, M, M, M}, Case{"zero3", 2 * M, M, M, M}}) {
    ScheduleInput input = gpt(/*tied=*/false);
    for (const Strategy& strategy : strategies)
      if (strategy.name == std::string(c.strategy)) input.strategy = strategy;
    input.micro_batches = M;
    const auto schedule = make_training_schedule(input);
    EXPECT_EQ(count(schedule, Verb::unshard, 1), c.block_gathers) << c.strategy;
    EXPECT_EQ(count(schedule, Verb::unshard, 4), c.block_gathers) << c.strategy;
    EXPECT_EQ(count(schedule, Verb::unshard, 0), c.root_gathers) << c.strategy;
    EXPECT_EQ(count(schedule, Verb::unshard, 5), c.head_gathers) << c.strategy;
    for (std::size_t unit = 0; unit < 6; ++unit)
      EXPECT_EQ(count(schedule, Verb::reduce, unit), c.reductions) << c.strategy;
  }
}

TEST(Schedule, CountsInAStepAreThoseOfTheWholeSchedule) {
  for (ScheduleInput input : all_inputs())
    for (std::size_t micro_batches : {1, 2, 3, 4, 9}) {
      input.micro_batches = micro_batches;
      const auto schedule = make_training_schedule(input);
      for (Verb verb : {Verb::unshard, Verb::reduce, Verb::all_reduce}) {
        const auto counts = counts_in_step(input, verb);
        for (std::size_t unit = 0; unit < counts.size(); ++unit)
          ASSERT_EQ(counts[unit], count(schedule, verb, unit))
              << input.strategy.name << " micro-batches=" << micro_batches;
      }
    }
}

/// The runs of starts in a schedule, each as the places of its units.
std::vector<std::vector<std::size_t>> runs_of_starts(const std::vector<Action>& schedule, Verb verb) {
  std::vector<std::vector<std::size_t>> runs;
  for (std::size_t i = 0; i < schedule.size(); i += started_together(schedule, i)) {
    if (schedule[i].verb != verb) continue;
    runs.emplace_back();
    for (std::size_t j = 0; j < started_together(schedule, i); ++j)
      runs.back().push_back(schedule[i + j].index);
  }
  return runs;
}

using Runs = std::vector<std::vector<std::size_t>>;

// Blocks of 10 elements, the root of 100: three blocks make 25, the last one waits for the root.
TEST(Schedule, SmallAllReducesWaitForEachOther) {
  ScheduleInput input = gpt(/*tied=*/true);
  input.shard_size = 1;
  input.replicas = 2;
  input.micro_batches = 2;
  EXPECT_EQ(runs_of_starts(make_training_schedule(input), Verb::all_reduce), (Runs{{4}, {3}, {2}, {1}, {0}}));
  input.slices = {100, 10, 10, 10, 10};
  input.summed_together = 25;
  EXPECT_EQ(runs_of_starts(make_training_schedule(input), Verb::all_reduce), (Runs{{4, 3, 2}, {1, 0}}));
  input.slices = {1, 1, 30, 1, 1};
  EXPECT_EQ(runs_of_starts(make_training_schedule(input), Verb::all_reduce), (Runs{{4, 3, 2}, {1, 0}}));
}

TEST(Schedule, GathersThatNothingPartsStartTogether) {
  ScheduleInput input = gpt(/*tied=*/true);
  input.strategy = strategies[1];
  ASSERT_STREQ(input.strategy.name, "zero1");
  input.prefetch = 2;
  EXPECT_EQ(runs_of_starts(make_training_schedule(input), Verb::unshard), (Runs{{0, 1, 2}, {3}, {4}}));
  input.prefetch = 9;
  EXPECT_EQ(runs_of_starts(make_training_schedule(input), Verb::unshard), (Runs{{0, 1, 2, 3, 4}}));
}

TEST(Schedule, GathersTheNextUnitBeforeItComputesThisOne) {
  ScheduleInput input = gpt(true);
  input.strategy = strategies[3];
  const auto schedule = make_training_schedule(input);
  const auto place = [&](Action action) { return std::find(schedule.begin(), schedule.end(), action); };
  for (std::size_t block = 1; block < 4; ++block)
    EXPECT_LT(place({Verb::unshard, block + 1}), place({Verb::forward, block}));
}

}  // namespace
}  // namespace shardmark
