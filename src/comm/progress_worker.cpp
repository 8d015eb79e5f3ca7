// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/progress_worker.hpp"

namespace shardmark {

namespace {

struct QueuedWork final : Pending::Work {
  std::future<double> result;
  std::optional<double> taken;

  explicit QueuedWork(std::future<double> future) : result(std::move(future)) {}
  ~QueuedWork() override {
    if (result.valid()) result.wait();
  }
  void wait() override { taken = result.get(); }
  bool done() const override { return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  std::optional<double> seconds() const override { return taken; }
};

}  // namespace

std::unique_ptr<Pending::Work> ProgressWorker::start(std::function<void()> action) {
  std::packaged_task<double()> task([this, action = std::move(action)] {
    if (failure_) std::rethrow_exception(failure_);
    const Stopwatch watch;
    try {
      action();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
    return watch.seconds();
  });
  auto work = std::make_unique<QueuedWork>(task.get_future());
  {
    const std::lock_guard lock(mutex_);
    queue_.push(std::move(task));
  }
  changed_.notify_one();
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  return work;
}

void ProgressWorker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return leaving_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto task = std::move(queue_.front());
    queue_.pop();
    lock.unlock();
    task();
    lock.lock();
  }
}

ProgressWorker::~ProgressWorker() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace shardmark
