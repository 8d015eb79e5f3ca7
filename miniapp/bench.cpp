// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "commands.hpp"
#include "core/deck.hpp"
#include "train/bench_comm.hpp"
#include "train/bench_gemm.hpp"
#include "train/bench_io.hpp"
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
  app.add_option("--repeats", options->repeats, "timed calls of each product")->check(CLI::Range(1, 1000000));
  return [options] { return bench_gemm(*options); };
}

Command add_step(CLI::App& app) {
  auto options = std::make_shared<BenchStepOptions>();
  add_common(app, *options);
  app.add_option("--steps", options->steps, "timed steps")->check(CLI::Range(1, 1000000));
  return [options] { return bench_step(*options); };
}

Command add_strategies(CLI::App& app) {
  auto options = std::make_shared<BenchStrategiesOptions>();
  add_common(app, *options);
  app.add_option("--steps", options->steps, "timed steps a turn")->check(CLI::Range(1, 1000000));
  app.add_option("--rounds", options->rounds, "turns of all strategies")->check(CLI::Range(1, 1000000));
  return [options] { return bench_strategies(*options); };
}

Command add_io(CLI::App& app) {
  struct Io {
    BenchIoOptions bench;
    int alignment = 0;
    std::vector<std::string> hints;
    bool no_fsync = false;
  };
  auto options = std::make_shared<Io>();
  add_common(app, options->bench);
  app.add_option("--folder", options->bench.folder, "where to write; output.dir of the deck unless given");
  app.add_option("--repeats", options->bench.repeats, "turns of all layouts")->check(CLI::Range(1, 1000000));
  app.add_option("--alignment", options->alignment, "checkpoint.alignment: bytes")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--mpi-info", options->hints, "checkpoint.mpi_info: key=value; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--no-fsync", options->no_fsync, "checkpoint.fsync = false, for the plain files too");
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

Command add_comm(CLI::App& app) {
  auto options = std::make_shared<BenchCommOptions>();
  app.add_option("--backend", options->backends,
                 "auto, mpi, node, nccl; may be repeated: they run side by side")
      ->delimiter(',');
  app.add_option("--min", options->min, "smallest buffer, for example 1KiB")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--max", options->max, "largest buffer, for example 256MiB")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--seconds", options->seconds, "time for a size of one collective");
  app.add_option("--json", options->json, "file for the figures");
  return [options] { return bench_comm(*options); };
}

struct Benchmark {
  const char* name;
  Command (*add)(CLI::App&);
  const char* what;
};
constexpr Benchmark benchmarks[] = {
    {"gemm", add_gemm, "GFLOP/s of each of the model's matrix products"},
    {"step", add_step, "Where the time of a training step goes"},
    {"strategies", add_strategies,
     "Memory, traffic and speed of every strategy at this number of ranks, one table"},
    {"comm", add_comm,
     "Time and bandwidth of every collective, back ends side by side and against a plain copy"},
    {"io", add_io, "Writes and reads what the deck's run would save, in all layouts, against plain files"},
};

}  // namespace

Command add_bench(CLI::App& app) {
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, Command>> commands;
  for (const auto& [name, add, what] : benchmarks) {
    CLI::App* command = app.add_subcommand(name, what);
    commands.emplace_back(command, add(*command));
  }
  return [commands] {
    for (const auto& [chosen, run] : commands)
      if (chosen->parsed()) return run();
    throw DeckError("bench: a benchmark is needed; --help lists them");
  };
}

}  // namespace shardmark
