// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/async_save.hpp"

#include <cstdio>
#include <utility>

namespace shardmark {

AsyncSave::AsyncSave(const Communicator& world, const CheckpointConfig& config)
    : world_(world), config_(config) {
  if (config.async) own_ = world.split(0, world.rank());
}

AsyncSave::~AsyncSave() {
  if (thread_.joinable()) thread_.join();
  // Another error is on its way already.
  if (in_flight_ && error_ && world_.rank() == 0)
    std::fprintf(stderr, "shardmark: the save of step %llu failed too\n",
                 static_cast<unsigned long long>(step_));
}

void AsyncSave::write() noexcept {
  try {
    report_ =
        checkpoint::save(own_ ? *own_ : world_, config_.dir, step_, contents_, config_.options, config_.keep);
  } catch (...) {
    error_ = std::current_exception();
  }
  ended_.store(true, std::memory_order_release);
}

void AsyncSave::start(std::uint64_t step, checkpoint::Contents contents, double snapshot_seconds) {
  const Stopwatch watch;
  step_ = step;
  contents_ = std::move(contents);
  snapshot_seconds_ = snapshot_seconds;
  ended_.store(false);
  in_flight_ = true;
  if (own_)
    thread_ = std::thread([this] { write(); });
  else
    write();
  record_.blocked += world_.host_max(snapshot_seconds + watch.seconds());
}

bool AsyncSave::poll() {
  if (!in_flight_) return false;
  enum { ended, running, failed };
  const bool here = ended_.load(std::memory_order_acquire);
  const int state = world_.host_max<int>(!here ? running : error_ ? failed : ended);
  return state != running && wait();
}

bool AsyncSave::wait() {
  if (!in_flight_) return false;
  const Stopwatch watch;
  if (thread_.joinable()) thread_.join();
  in_flight_ = false;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  contents_ = {};
  ++record_.count;
  record_.last = report_;
  record_.last[checkpoint::Phase::snapshot] = snapshot_seconds_;
  record_.last_seconds = world_.host_max(snapshot_seconds_ + report_.seconds);
  record_.seconds += record_.last_seconds;
  record_.blocked += world_.host_max(watch.seconds());
  return true;
}

}  // namespace shardmark
