// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "commands.hpp"
#include "train/bench_strategies.hpp"

namespace shardmark {

Command add_bench(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App& strategies = *app.add_subcommand(
      "strategies", "Memory, traffic and speed of every strategy at this number of ranks, one table");
  auto options = std::make_shared<BenchStrategiesOptions>();
  add_deck_options(strategies, options->deck, options->overrides);
  strategies.add_option("--steps", options->steps, "timed steps a turn")->check(CLI::PositiveNumber);
  strategies.add_option("--rounds", options->rounds, "turns of all strategies")->check(CLI::PositiveNumber);
  strategies.add_option("--json", options->json, "file for the figures");
  return [options] { return bench_strategies(*options); };
}

}  // namespace shardmark
