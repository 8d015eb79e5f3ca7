// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"

namespace shardmark {

struct BenchIoOptions {
  std::string deck;                    ///< path of the deck
  std::vector<std::string> overrides;  ///< section.key=value; the [checkpoint] section says how to write
  std::string folder;                  ///< where to write; empty: output.dir
  int repeats = 3;                     ///< the ways to write take turns
  std::string json;                    ///< file for the figures; empty = none
};

/// `shardmark bench io`: writes and reads what a run of the deck would save at this P, without training: to a
/// shared file with independent and with collective transfers, to a file per rank, and for comparison to
/// plain files, one a rank, with pwrite and the same fsync. Each rank reads what the next one wrote and
/// checks it. Prints a table: seconds by phase, GB/s, and the ratio to the plain files. Files are removed.
/// Collective. Throws Error.
ExitCode bench_io(const BenchIoOptions& options);

}  // namespace shardmark
