// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace shardmark {

struct BenchCommOptions {
  std::vector<std::string> backends;  ///< side by side; empty: all that are possible here
  std::size_t min = std::size_t{1} << 10;
  std::size_t max = std::size_t{1} << 28;  ///< bytes of the whole buffer; sizes grow fourfold
  double seconds = 1;                      ///< for a size of one collective, all back ends together
  std::string json;                        ///< file for the figures; empty = none
};

/// `shardmark bench comm`: times every collective in fp32 and in place, over all ranks, with data that is
/// written anew before and checked after. The back ends take turns; times are medians of the slowest rank's.
/// For n ranks and a whole buffer of S bytes in t seconds the algorithm bandwidth is S/t, and the bus
/// bandwidth S/t × (n-1)/n for all-gather and reduce-scatter, × 2(n-1)/n for all-reduce, and × 1 for
/// broadcast (nccl-tests, doc/PERFORMANCE.md). Beside it, where all ranks share a node: the bandwidth of a
/// plain copy of S (n-1)/n bytes from another rank's memory to a rank's own, on all ranks at once. That is
/// what an all-gather moves; a reduce-scatter reads S bytes a rank, its own slice too, and writes S/n.
/// Collective. Invalid where data came out wrong. Throws Error.
ExitCode bench_comm(const BenchCommOptions& options);

}  // namespace shardmark
