// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "core/types.hpp"

namespace shardmark {

/// Seconds since its making.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// Where the time of one kind of collective went. A worker times each collective; where the library carries
/// them out by itself nobody sees them end, and only the time that the caller was blocked is known. To wait
/// for a collective behind others in the worker's queue is exposed time of the one waited for, so hidden time
/// is exact in the sum over kinds and groups.
struct CommTime {
  double seconds = 0;  ///< that the collectives took
  double exposed = 0;  ///< that the main thread was blocked in start and wait

  double hidden() const { return std::max(0.0, seconds - exposed); }
  CommTime& operator+=(const CommTime& other) {
    seconds += other.seconds;
    exposed += other.exposed;
    return *this;
  }
};

/// A collective that was started. Buffers belong to it until wait() returns; one that goes without wait(),
/// as where an exception passes, blocks until the buffers are free. It must not outlive its communicator.
class Pending {
 public:
  struct Work {
    virtual ~Work() = default;
    virtual void wait() = 0;
    /// wait() for the sake of what is launched on `exec` afterwards.
    virtual void wait_on(const Exec& /*exec*/) { wait(); }
    /// The result is in place. Makes no progress itself; a back end that can't tell says false.
    virtual bool done() const { return false; }
    /// What the collective itself took, where that is known after wait().
    virtual std::optional<double> seconds() const { return {}; }
  };
  Pending() = default;
  explicit Pending(std::unique_ptr<Work> work) : work_(std::move(work)) {}

  /// Blocks until the result is in place; a second call, or one on an empty Pending, does nothing.
  void wait() {
    finish([](Work& work) { work.wait(); });
  }
  /// The same where another instance than that of the start goes on with the result: only it waits.
  void wait_on(const Exec& exec) {
    finish([&](Work& work) { work.wait_on(exec); });
  }
  bool active() const { return work_ != nullptr; }
  bool done() const { return work_ == nullptr || work_->done(); }

  /// wait() adds to `time` what this collective took.
  void book(CommTime& time, double blocked_in_start) {
    time_ = &time;
    blocked_in_start_ = blocked_in_start;
  }

 private:
  template <class Wait>
  void finish(const Wait& wait) {
    const auto work = std::move(work_);
    if (work == nullptr) return;
    const Stopwatch watch;
    wait(*work);
    if (time_ == nullptr) return;
    const double exposed = blocked_in_start_ + watch.seconds();
    *time_ += {work->seconds().value_or(exposed), exposed};
  }

  std::unique_ptr<Work> work_;
  CommTime* time_ = nullptr;
  double blocked_in_start_ = 0;
};

}  // namespace shardmark
