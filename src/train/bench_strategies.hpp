// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"

namespace shardmark {

struct BenchStrategiesOptions {
  std::string deck;                    ///< path of the deck
  std::vector<std::string> overrides;  ///< section.key=value
  int steps = 5;                       ///< timed steps a round
  int rounds = 3;                      ///< the strategies take turns
  std::string json;                    ///< file for the figures; empty = none
};

/// `shardmark bench strategies`: trains the deck's model under every strategy in turn and prints one table:
/// memory by class, traffic, step time and rate of each, against ddp. A strategy that needs more memory than
/// there is gets a row that says so. Collective. Throws Error.
ExitCode bench_strategies(const BenchStrategiesOptions& options);

}  // namespace shardmark
