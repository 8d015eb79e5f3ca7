// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "commands.hpp"
#include "train/bench_gemm.hpp"
#include "train/bench_step.hpp"
#include "train/bench_strategies.hpp"

namespace shardmark {

namespace {

template <class Options>
void add_common(CLI::App& app, Options& options) {
  add_deck_options(app, options.deck, options.overrides);
  app.add_option("--json", options.json, "file for the figures");
}

Command add_gemm(CLI::App& app) {
  auto options = std::make_shared<BenchGemmOptions>();
  add_common(app, *options);
  app.add_option("--repeats", options->repeats, "timed calls of each product")->check(CLI::PositiveNumber);
  return [options] { return bench_gemm(*options); };
}

Command add_step(CLI::App& app) {
  auto options = std::make_shared<BenchStepOptions>();
  add_common(app, *options);
  app.add_option("--steps", options->steps, "timed steps")->check(CLI::PositiveNumber);
  return [options] { return bench_step(*options); };
}

Command add_strategies(CLI::App& app) {
  auto options = std::make_shared<BenchStrategiesOptions>();
  add_common(app, *options);
  app.add_option("--steps", options->steps, "timed steps a turn")->check(CLI::PositiveNumber);
  app.add_option("--rounds", options->rounds, "turns of all strategies")->check(CLI::PositiveNumber);
  return [options] { return bench_strategies(*options); };
}

}  // namespace

Command add_bench(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App& gemm = *app.add_subcommand("gemm", "GFLOP/s of each of the model's matrix products");
  CLI::App& step = *app.add_subcommand("step", "Where the time of a training step goes");
  CLI::App& strategies = *app.add_subcommand(
      "strategies", "Memory, traffic and speed of every strategy at this number of ranks, one table");
  const std::vector<std::pair<CLI::App*, Command>> commands = {
      {&gemm, add_gemm(gemm)}, {&step, add_step(step)}, {&strategies, add_strategies(strategies)}};
  return [commands] {
    for (const auto& [chosen, run] : commands)
      if (chosen->parsed()) return run();
    throw DeckError("bench: a benchmark is needed; --help lists them");
  };
}

}  // namespace shardmark
