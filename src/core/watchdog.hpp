// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace shardmark {

/// Ends a job that hangs. The main thread notes what it is about to do; when no note came for `timeout`
/// seconds, a thread prints one line to standard error,
///   rank 1 on host x: stalled for 5.0 s in phase "reduce" (unit 3) of step 12
/// and the limit that ends the job,
/// lets the other ranks, whose clocks run out at about the same time, print theirs, and calls `end_job`. Time
/// in which the whole process was stopped does not count.
class Watchdog {
 public:
  struct Options {
    double timeout = 0;      ///< seconds without a note; 0 = off, no thread
    int rank = 0;            ///< who speaks
    double grace = 2;        ///< seconds between the line and end_job
    double last_resort = 5;  ///< seconds for end_job, after which the process leaves by itself with code 3
  };

  /// `end_job` is called on another thread, while the main thread may be blocked anywhere; it should not
  /// return.
  Watchdog(const Options& options, std::function<void()> end_job);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// A sign of life: a few stores, no lock. `phase` must live as long as the watchdog, as a literal does; a
  /// negative unit is left out.
  void enter(const char* phase, std::uint64_t step, int unit = -1) {
    phase_.store(phase, std::memory_order_relaxed);
    step_.store(step, std::memory_order_relaxed);
    unit_.store(unit, std::memory_order_relaxed);
    notes_.fetch_add(1, std::memory_order_release);
  }

  /// The line for a stall of that many seconds.
  std::string describe(double seconds) const;

 private:
  void watch();
  void end();
  /// Sleeps, and says whether the watchdog is still wanted.
  bool sleep(double seconds);

  const Options options_;
  const std::function<void()> end_job_;
  std::atomic<const char*> phase_ = "start";
  std::atomic<std::uint64_t> step_ = 0;
  std::atomic<int> unit_ = -1;
  std::atomic<std::uint64_t> notes_ = 0;
  std::mutex mutex_;
  std::condition_variable leave_;
  bool leaving_ = false;
  std::thread thread_;
};

}  // namespace shardmark
