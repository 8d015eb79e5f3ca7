// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"

namespace shardmark {

struct BenchStepOptions {
  std::string deck;                    ///< path of the deck
  std::vector<std::string> overrides;  ///< section.key=value
  int steps = 10;                      ///< timed ones, after 2 to warm up
  std::string json;                    ///< file for the figures; empty = none
};

/// `shardmark bench step`: the time of a training step by what it is spent on, and the share that the step's
/// matrix products and attention would need at the measured rate of each of their own shapes. Collective.
/// Throws Error.
ExitCode bench_step(const BenchStepOptions& options);

}  // namespace shardmark
