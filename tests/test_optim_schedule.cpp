// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "optim/schedule.hpp"
#include "test_data.hpp"

namespace shardmark {
namespace {

ScheduleConfig schedule(const std::string& kind, std::uint64_t warmup, double min_lr) {
  ScheduleConfig config;
  config.kind = kind;
  config.warmup = warmup;
  config.min_lr = min_lr;
  return config;
}

TEST(Schedule, WarmupIsALineThroughZero) {
  for (const char* kind : {"constant", "linear", "cosine"}) {
    const ScheduleConfig config = schedule(kind, 10, 0.1);
    EXPECT_DOUBLE_EQ(learning_rate(config, 1, 1, 110), 0.1) << kind;
    EXPECT_DOUBLE_EQ(learning_rate(config, 1, 5, 110), 0.5) << kind;
    EXPECT_DOUBLE_EQ(learning_rate(config, 1, 10, 110), 1) << kind;
    EXPECT_DOUBLE_EQ(learning_rate(config, 1, 3, 5), 0.3) << "a run shorter than its warm-up";
  }
}

TEST(Schedule, DecayEndsAtTheLastStep) {
  const double quarter = 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5));  // cos(pi / 4)
  EXPECT_DOUBLE_EQ(learning_rate(schedule("cosine", 10, 0.1), 1, 35, 110), quarter);
  EXPECT_DOUBLE_EQ(learning_rate(schedule("cosine", 10, 0.1), 1, 60, 110), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(schedule("linear", 10, 0.1), 1, 35, 110), 0.775);
  EXPECT_DOUBLE_EQ(learning_rate(schedule("linear", 10, 0.1), 1, 60, 110), 0.55);
  for (std::uint64_t step : {110, 111, 1000}) {
    EXPECT_DOUBLE_EQ(learning_rate(schedule("cosine", 10, 0.1), 1, step, 110), 0.1);
    EXPECT_DOUBLE_EQ(learning_rate(schedule("linear", 10, 0.1), 1, step, 110), 0.1);
    EXPECT_DOUBLE_EQ(learning_rate(schedule("constant", 10, 0.1), 1, step, 110), 1);
  }
  EXPECT_DOUBLE_EQ(learning_rate(schedule("linear", 0, 0), 1, 1, 4), 0.75);
  EXPECT_DOUBLE_EQ(learning_rate(schedule("linear", 4, 0), 1, 4, 4), 1) << "all steps are warm-up";
}

TEST(Schedule, Failures) {
  expect_failure<DeckError>([] { learning_rate(schedule("step", 0, 0), 1, 1, 4); },
                            {"schedule.kind = \"step\"", "\"constant\", \"linear\", \"cosine\""});
  expect_failure<DeckError>([] { learning_rate(schedule("cosine", 0, 2), 1, 1, 4); },
                            {"schedule.min_lr = 2", "optimizer.lr = 1"});
  expect_failure<DeckError>([] { learning_rate(schedule("cosine", 0, -1), 1, 1, 4); },
                            {"schedule.min_lr = -1"});
}

}  // namespace
}  // namespace shardmark
