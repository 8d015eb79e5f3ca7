// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "core/watchdog.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <utility>

#include "core/error.hpp"

namespace shardmark {

namespace {
using Seconds = std::chrono::duration<double>;
}

Watchdog::Watchdog(const Options& options, std::function<void()> end_job)
    : options_(options), end_job_(std::move(end_job)) {
  if (options.timeout > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  leave_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool Watchdog::sleep(double seconds) {
  std::unique_lock lock(mutex_);
  return !leave_.wait_for(lock, Seconds(seconds), [this] { return leaving_; });
}

void Watchdog::watch() {
  const double period = std::min(0.25, options_.timeout / 8);
  std::uint64_t seen = notes_.load(std::memory_order_acquire);
  double stalled = 0;
  for (auto last = std::chrono::steady_clock::now(); sleep(period);) {
    const auto now = std::chrono::steady_clock::now();
    // A longer sleep than asked for: this process was stopped, or had no core.
    stalled += std::min(Seconds(now - last).count(), 2 * period);
    last = now;
    const std::uint64_t notes = notes_.load(std::memory_order_acquire);
    if (std::exchange(seen, notes) != notes) stalled = 0;
    if (stalled < options_.timeout) continue;
    const std::string line =
        fmt::format("{}; train.timeout = {} ends the job\n", describe(stalled), options_.timeout);
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
    // Launchers bear one call that ends the job better than several at once.
    if (sleep(options_.grace + 0.25 * std::min(options_.rank, 4))) end();
    return;
  }
}

void Watchdog::end() {
  std::packaged_task<void()> task(end_job_);
  const std::future<void> ended = task.get_future();
  std::thread(std::move(task)).detach();
  if (ended.wait_for(Seconds(options_.last_resort)) == std::future_status::ready) return;
  std::fputs(fmt::format("rank {}: the job does not end; leaving\n", options_.rank).c_str(), stderr);
  _exit(static_cast<int>(ExitCode::environment));
}

std::string Watchdog::describe(double seconds) const {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const int unit = unit_.load(std::memory_order_relaxed);
  return fmt::format("rank {} on host {}: stalled for {:.1f} s in phase \"{}\"{} of step {}", options_.rank,
                     host, seconds, phase_.load(std::memory_order_relaxed),
                     unit < 0 ? "" : fmt::format(" (unit {})", unit), step_.load(std::memory_order_relaxed));
}

}  // namespace shardmark
