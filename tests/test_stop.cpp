// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/stop.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "small_run.hpp"

namespace shardmark {
namespace {

const Communicator& world() {
  static const Communicator* const communicator = make_world_communicator("mpi").release();  // outlives main
  return *communicator;
}

std::string reason_of(StopListener& stop, bool begins_step = true) {
  try {
    stop.check(begins_step);
  } catch (const StopRequest& request) {
    return request.reason;
  }
  return "";
}

TEST(Stop, ASignalOnOneRankStopsAll) {
  for (int rank = 0; rank < world().size(); ++rank) {
    for (const auto& [signal, name] : {std::pair{SIGUSR1, "SIGUSR1"}, std::pair{SIGTERM, "SIGTERM"}}) {
      StopListener stop(world(), {});
      EXPECT_EQ(reason_of(stop), "");
      if (world().rank() == rank) std::raise(signal);
      EXPECT_EQ(reason_of(stop), name);
    }
  }
  StopListener fresh(world(), {});
  EXPECT_EQ(reason_of(fresh), "") << "signals of an earlier run are forgotten";
}

TEST(Stop, AllRanksGiveTheSameReason) {
  StopListener stop(world(), wall_clock() - 1);
  if (world().rank() == 0) std::raise(SIGTERM);
  if (world().rank() == world().size() - 1) std::raise(SIGUSR1);
  EXPECT_EQ(reason_of(stop), "SIGUSR1");
}

// Room is left for the longest step, where one is about to begin, and the longest save.
TEST(Stop, DeadlineLeavesRoom) {
  StopListener stop(world(), wall_clock() + 1000);
  stop.saved(80);
  stop.saved(40);
  stop.stepped(400);
  stop.stepped(200);
  EXPECT_DOUBLE_EQ(stop.margin(true), 1 + 1.25 * (80 + 400));
  EXPECT_DOUBLE_EQ(stop.margin(false), 1 + 1.25 * 80);
  EXPECT_EQ(reason_of(stop), "");
  stop.stepped(730);  // 1 + 1.25 x (730 + 80) > 1000
  EXPECT_EQ(reason_of(stop, false), "") << "a step under way may end";
  EXPECT_EQ(reason_of(stop), "deadline");
}

TEST(Stop, DeadlineOnOneRankStopsAll) {
  StopListener stop(world(), wall_clock() + (world().rank() == 0 ? 0.5 : 1e6));
  EXPECT_EQ(reason_of(stop), "deadline");
}

TEST(Stop, ParsesDeadlines) {
  setenv("TZ", "EST5EDT,M3.2.0,M11.1.0", 1);
  tzset();
  EXPECT_EQ(parse_deadline("1700000000", 5), 1700000000);
  EXPECT_EQ(parse_deadline("+90.5", 1000), 1090.5);
  EXPECT_EQ(parse_deadline("2026-01-31T18:30:00", 0), 1769902200);  // 23:30 UTC
  EXPECT_EQ(parse_deadline("2026-07-31T18:30:00", 0), 1785537000);  // 22:30 UTC: summer time
  for (const char* wrong :
       {"", "+", "soon", "-5", "+-5", "12:30", "2026-01-31", "2026-01-31T18:30:00Z", "nan", "N/A",
        "2026-02-31T00:00:00", "2026-13-01T00:00:00", "+nan", "+inf", "1e999"})
    EXPECT_THROW(parse_deadline(wrong, 0), DeckError) << wrong;
  // A moment that has just passed stops at once, one of long ago is no deadline.
  EXPECT_EQ(parse_deadline("1700000000", 1700000001), 1700000000);
  EXPECT_THROW(parse_deadline("1700000000", 1700086401), DeckError);
  EXPECT_THROW(parse_deadline("2026-01-31T18:30:00", 1769988601), DeckError);
  EXPECT_EQ(parse_deadline("+0", 5), 5);
}

std::string fingerprints(SmallRun<float>& run) {
  std::string text;
  for (const auto& [tensor, value] : TrainerState<float>(*run.trainer, run.mesh).fingerprints(*run.world))
    text += tensor + " " + std::to_string(value) + "\n";
  return text;
}

// A step or an evaluation that is broken off at any micro-batch leaves nothing behind.
TEST(Stop, ADroppedStepLeavesNothingBehind) {
  auto cases = strategy_cases(world().size());
  cases.push_back({"offloaded", {"parallel.offload=all"}});
  for (const StrategyCase& c : cases) {
    SmallRun<float> straight(world(), c.overrides), broken(world(), c.overrides);
    straight.steps(2);
    broken.steps(2);
    for (std::size_t last = 0; last < 2; ++last) {
      broken.trainer->on_action([&](const Action& action) {
        if (action.verb == Verb::begin_micro_batch && action.index == last) throw StopRequest{"test"};
      });
      EXPECT_THROW(broken.trainer->step(), StopRequest) << c.name;
      broken.trainer->drop_step();
      EXPECT_EQ(fingerprints(broken), fingerprints(straight)) << c.name;
      EXPECT_EQ(broken.trainer->steps_done(), 2u);
      EXPECT_THROW(broken.trainer->evaluate(), StopRequest) << c.name;
      broken.trainer->drop_step();
    }
    broken.trainer->on_action({});
    const auto expected = straight.steps(3), results = broken.steps(3);
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].loss, expected[i].loss) << c.name << " step " << 3 + i;
      EXPECT_EQ(results[i].grad_norm, expected[i].grad_norm) << c.name;
    }
    EXPECT_EQ(broken.trainer->evaluate(), straight.trainer->evaluate()) << c.name;
    EXPECT_EQ(fingerprints(broken), fingerprints(straight)) << c.name;
  }
}

}  // namespace
}  // namespace shardmark
