// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/node_work.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

#include "comm/mpi_call.hpp"

namespace shardmark {

namespace {

/// Waits that get longer: ranks may outnumber the cores, and then the late one needs this core. A yield costs
/// half a microsecond where nobody else wants to run; a sleep, with the kernel's slack, some 70.
class Patience {
 public:
  constexpr Patience(int spins, int yields) : spins_(spins), yields_(yields) {}

  void wait() {
    ++tries_;
    if (tries_ <= spins_) return pause();
    if (tries_ <= spins_ + yields_) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  int spins_, yields_;
  int tries_ = 0;
};
constexpr Patience alone(1000, 2000);  ///< a millisecond
constexpr Patience crowded(0, 64);

}  // namespace

NodeBoard::NodeBoard(const SharedWindow& window, int own_place, int ranks)
    : window_(window), own_place_(own_place), ranks_(ranks) {
  new (window.part(own_place)) Entry;
}

void NodeBoard::post(const NodeNotice& notice) {
  entry(own_place_).notice = notice;
  post();
}

bool NodeBoard::all_posted() const {
  for (int place = 0; place < ranks_; ++place)
    if (entry(place).mark.load(std::memory_order_acquire) < steps_) return false;
  return true;
}

void NodeBoard::require_same_call() const {
  for (int place = 0; place < ranks_; ++place)
    if (notice(place).signature != notice(own_place_).signature)
      throw EnvironmentError(
          "collective: ranks of a node made different calls, or only some of them with memory from "
          "allocate()");
}

bool NodeSteps::advance() {
  while (next_ < steps_.size()) {
    if (!started_) {
      if (next_ > 0 && !board_.all_posted()) return false;
      if (next_ == 1) board_.require_same_call();
      started_ = true;
      steps_[next_](requests_);
    }
    int done = 1;
    if (!requests_.empty())
      SHARDMARK_MPI(
          MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE));
    if (done == 0) return false;
    requests_.clear();
    started_ = false;
    if (next_++ == 0) {
      board_.post(notice_);
    } else {
      board_.post();
    }
  }
  return board_.all_posted();
}

void NodeSteps::finish_aside() {
  for (Patience patience = crowded; !advance();) patience.wait();
}

class NodeQueue::Work final : public Pending::Work {
 public:
  Work(NodeQueue& queue, NodeSteps steps) : queue_(queue), steps_(std::move(steps)) {}
  ~Work() override {
    try {
      wait();
    } catch (...) {
      std::erase(queue_.works_, this);
    }
  }
  void wait() override {
    for (Patience patience = queue_.crowded_ ? crowded : alone; !done_; patience.wait()) queue_.advance();
  }
  bool done() const override { return done_; }

  bool advance() {
    done_ = steps_.advance();
    return done_;
  }

 private:
  NodeQueue& queue_;
  NodeSteps steps_;
  bool done_ = false;
};

NodeQueue::NodeQueue(int ranks) : crowded_(ranks > sysconf(_SC_NPROCESSORS_ONLN)) {}

void NodeQueue::advance() {
  if (failure_) std::rethrow_exception(failure_);
  try {
    while (!works_.empty() && works_.front()->advance()) works_.pop_front();
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

Pending NodeQueue::start(NodeSteps steps) {
  auto work = std::make_unique<Work>(*this, std::move(steps));
  works_.push_back(work.get());
  advance();
  return Pending(std::move(work));
}

}  // namespace shardmark
