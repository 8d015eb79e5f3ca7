// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "commands.hpp"
#include "train/bench_comm.hpp"
#include "train/bench_strategies.hpp"

namespace shardmark {

namespace {

Command add_strategies(CLI::App& app) {
  auto options = std::make_shared<BenchStrategiesOptions>();
  add_deck_options(app, options->deck, options->overrides);
  app.add_option("--steps", options->steps, "timed steps a turn")->check(CLI::PositiveNumber);
  app.add_option("--rounds", options->rounds, "turns of all strategies")->check(CLI::PositiveNumber);
  app.add_option("--json", options->json, "file for the figures");
  return [options] { return bench_strategies(*options); };
}

Command add_comm(CLI::App& app) {
  auto options = std::make_shared<BenchCommOptions>();
  app.add_option("--backend", options->backends, "auto, mpi, node; may be repeated: they run side by side")
      ->delimiter(',');
  app.add_option("--min", options->min, "smallest buffer, for example 1KiB")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--max", options->max, "largest buffer, for example 256MiB")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--seconds", options->seconds, "time for a size of one collective")
      ->check(CLI::PositiveNumber);
  app.add_option("--json", options->json, "file for the figures");
  return [options] { return bench_comm(*options); };
}

}  // namespace

Command add_bench(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App& strategies = *app.add_subcommand(
      "strategies", "Memory, traffic and speed of every strategy at this number of ranks, one table");
  CLI::App& comm = *app.add_subcommand(
      "comm", "Time and bandwidth of every collective, back ends side by side and against a plain copy");
  const Command run_strategies = add_strategies(strategies), run_comm = add_comm(comm);
  return [&comm, run_strategies, run_comm] { return comm.parsed() ? run_comm() : run_strategies(); };
}

}  // namespace shardmark
