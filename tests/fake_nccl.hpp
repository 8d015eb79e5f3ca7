// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace shardmark::fake {

/// What the stand-ins for NCCL and the CUDA runtime in fake_nccl.cpp are told, and what they saw. They carry
/// collectives out over MPI, at once, in host memory.
struct Fake {
  std::atomic<bool> hangs = false;        ///< events stay open until communicators are aborted
  std::atomic<bool> fails_later = false;  ///< NCCL reports an asynchronous error
  std::atomic<bool> group_fails = false;  ///< at its end
  std::atomic<int> slow_answers = 0;      ///< times that each call is said to be in progress

  std::vector<std::string> log;  ///< calls of the main thread, in order
  std::atomic<int> aborted = 0, destroyed = 0, made_events = 0, open_events = 0;
};
Fake& state();

}  // namespace shardmark::fake
