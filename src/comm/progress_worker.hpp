// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>

#include "comm/pending.hpp"

namespace shardmark {

/// [Note: Progress worker] MPI libraries move a non-blocking collective on only while some thread is inside
/// MPI, so a main thread that computes hides nothing. The worker is a thread that carries out the collectives
/// of all communicators of the process, one after another, in the order of their starts. One queue cannot
/// deadlock although the groups overlap: every rank starts the same collectives in the same order (the
/// schedule is the same everywhere, and a shard group's item is an item of each of its ranks at the same
/// place), so by induction the first i items end on all ranks, and item i + 1 then has all its ranks in it.
/// Collectives that the main thread does itself meanwhile run on other MPI communicators and need no worker.
/// The worker sees raw pointers, counts and dtypes; it never calls Kokkos.
///
/// After an action that threw, the later ones are not carried out: they throw the same, so that nobody waits
/// for ranks that gave up.
class ProgressWorker {
 public:
  ProgressWorker() = default;
  ProgressWorker(const ProgressWorker&) = delete;
  ProgressWorker& operator=(const ProgressWorker&) = delete;
  /// Ends what is queued, and joins.
  ~ProgressWorker();

  /// Queues an action; the first one starts the thread. Waiting for the work rethrows what the action threw.
  std::unique_ptr<Pending::Work> start(std::function<void()> action);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::packaged_task<double()>> queue_;  ///< tasks return their seconds
  bool leaving_ = false;
  std::exception_ptr failure_;  ///< the worker's own
  std::thread thread_;
};

}  // namespace shardmark
