// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "commands.hpp"
#include "core/deck.hpp"
#include "train/bench_io.hpp"
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

Command add_io(CLI::App& app) {
  struct Io {
    BenchIoOptions bench;
    std::uint64_t alignment = 0;
    std::vector<std::string> hints;
    bool no_fsync = false;
  };
  auto options = std::make_shared<Io>();
  add_deck_options(app, options->bench.deck, options->bench.overrides);
  app.add_option("--folder", options->bench.folder, "where to write; output.dir of the deck unless given");
  app.add_option("--repeats", options->bench.repeats, "turns of all layouts")->check(CLI::PositiveNumber);
  app.add_option("--alignment", options->alignment, "checkpoint.alignment: bytes");
  app.add_option("--mpi-info", options->hints, "checkpoint.mpi_info: key=value; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--no-fsync", options->no_fsync, "checkpoint.fsync = false, for the plain files too");
  app.add_option("--json", options->bench.json, "file for the figures");
  return [options] {
    std::vector<std::string>& overrides = options->bench.overrides;
    if (options->alignment > 0)
      overrides.push_back("checkpoint.alignment=" + std::to_string(options->alignment));
    if (options->no_fsync) overrides.push_back("checkpoint.fsync=false");
    std::string hints;
    for (const std::string& hint : options->hints) hints += (hints.empty() ? "" : ", ") + toml_quoted(hint);
    if (!hints.empty()) overrides.push_back("checkpoint.mpi_info=[" + hints + "]");
    return bench_io(options->bench);
  };
}

}  // namespace

Command add_bench(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* strategies = app.add_subcommand(
      "strategies", "Memory, traffic and speed of every strategy at this number of ranks, one table");
  CLI::App* io = app.add_subcommand(
      "io", "Writes and reads what the deck's run would save, in all layouts, against plain files");
  return [io, run_io = add_io(*io), run_strategies = add_strategies(*strategies)] {
    return io->parsed() ? run_io() : run_strategies();
  };
}

}  // namespace shardmark
