// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "core/watchdog.hpp"

namespace shardmark {
namespace {

using std::chrono::milliseconds;

// Longer than any sane machine needs for what is waited for.
constexpr std::chrono::seconds patience{60};

TEST(Watchdog, EndsAStalledJobAndSaysWhere) {
  std::promise<void> called;
  Watchdog watchdog({.timeout = 0.05, .rank = 4, .grace = 0.01}, [&] { called.set_value(); });
  watchdog.enter("reduce", 12, 3);
  testing::internal::CaptureStderr();
  const auto status = called.get_future().wait_for(patience);
  const std::string line = testing::internal::GetCapturedStderr();
  ASSERT_EQ(status, std::future_status::ready);
  EXPECT_EQ(line.rfind("rank 4 on host ", 0), 0u) << line;
  EXPECT_NE(
      line.find(
          ": stalled for 0.1 s in phase \"reduce\" (unit 3) of step 12; train.timeout = 0.05 ends the job\n"),
      std::string::npos)
      << line;
}

TEST(Watchdog, LeavesOutAUnitThatThereIsNot) {
  Watchdog watchdog({}, [] {});
  watchdog.enter("save", 7);
  const std::string line = watchdog.describe(5);
  EXPECT_NE(line.find(": stalled for 5.0 s in phase \"save\" of step 7"), std::string::npos) << line;
}

// It notes on until the watchdog looked several times, in all far longer than the timeout; a slow machine
// that once fails to note in time would end the test wrongly, so the timeout is long beside a note.
TEST(Watchdog, NotesKeepTheJobAlive) {
  std::atomic<bool> ended = false;
  Watchdog watchdog({.timeout = 2, .grace = 0}, [&] { ended = true; });
  for (int i = 0; i < 300; ++i) {
    watchdog.enter("forward", i);
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_FALSE(ended);
}

TEST(Watchdog, OffMeansOff) {
  std::atomic<bool> ended = false;
  {
    Watchdog watchdog({.timeout = 0, .grace = 0}, [&] { ended = true; });
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_FALSE(ended);
}

// Leaving within the grace is leaving: nobody is ended.
TEST(Watchdog, GoesInOrderAtTheEnd) {
  std::atomic<bool> ended = false;
  testing::internal::CaptureStderr();
  {
    Watchdog watchdog({.timeout = 0.01, .grace = 600}, [&] { ended = true; });
    std::this_thread::sleep_for(milliseconds(100));
  }
  testing::internal::GetCapturedStderr();
  EXPECT_FALSE(ended);
}

}  // namespace
}  // namespace shardmark
