// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <map>
#include <string_view>

#include "checkpoint/format.hpp"
#include "commands.hpp"
#include "core/runtime.hpp"
#include "core/version.hpp"
#include "layers/blas.hpp"
#include "train/stop.hpp"

namespace shardmark {
namespace {

ExitCode parse_and_run(int argc, char** argv, bool speaks) {
  CLI::App app(
      "Shardmark: sharded training (FSDP, ZeRO) on Kokkos, MPI and parallel HDF5.\n"
      "Exit codes: 0 valid, 1 invalid, 2 bad deck or arguments, 3 environment, 75 stopped: run again.");
  app.set_version_flag("--version", version);
  CLI::App& train = *app.add_subcommand("train", "Train the model of a deck; run it under mpirun or srun");
  CLI::App& info = *app.add_subcommand("info", "Versions, back ends and machine");
  CLI::App& verify = *app.add_subcommand("verify", "Check what this build computes, sends and stores");
  CLI::App& bench = *app.add_subcommand("bench", "Measure a part of training");
  CLI::App& ckpt =
      *app.add_subcommand("ckpt", "List, check, compare, convert and remove checkpoints, without mpirun");
  const std::map<const CLI::App*, Command> commands = {{&train, add_train(train)},
                                                       {&verify, add_verify(verify)},
                                                       {&bench, add_bench(bench)},
                                                       {&ckpt, add_ckpt(ckpt)},
                                                       {&info, add_info(info)}};
  app.allow_extras();  // an unknown word is refused below, with the subcommands that there are
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    if (speaks) app.exit(success);
    return ExitCode::success;
  } catch (const CLI::ParseError& error) {
    throw DeckError(std::string(error.what()) + "; --help lists what is valid");
  }
  const auto chosen = app.get_subcommands();
  if (chosen.size() == 1 && app.remaining_size(true) == 0) return commands.at(chosen.front())();
  if (chosen.size() == 1)
    throw DeckError(fmt::format("unknown: {}; shardmark {} --help lists what is valid",
                                app.remaining(true).front(), chosen.front()->get_name()));
  std::string names;
  for (const CLI::App* command : app.get_subcommands({}))
    names += (names.empty() ? "" : ", ") + command->get_name();
  throw DeckError(
      (app.remaining_size() == 0 ? "a subcommand is needed" : "unknown: " + app.remaining().front()) +
      "; valid subcommands, one at a time: " + names);
}

/// Errors that all ranks share are printed once and leave in order; an error of this rank alone ends the job.
ExitCode run_and_report(int argc, char** argv, const Runtime& runtime) {
  try {
    return parse_and_run(argc, argv, runtime.rank() == 0);
  } catch (const Error& error) {
    if (runtime.rank() == 0 || !error.everywhere()) {
      std::fflush(stdout);
      std::fprintf(stderr, "shardmark: rank %d: %s\n", runtime.rank(), error.what());
      if (error.code() == ExitCode::invalid) std::printf("\nRESULT: INVALID: %s\n", error.what());
    }
    if (!error.everywhere()) runtime.abort(static_cast<int>(error.code()));
    return error.code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shardmark: rank %d: internal error: %s\n", runtime.rank(), error.what());
    runtime.abort(static_cast<int>(ExitCode::environment));
  }
}

}  // namespace
}  // namespace shardmark

int main(int argc, char** argv) {
  shardmark::restart_with_fitting_blas_kernels(argv);
  shardmark::checkpoint::start_before_mpi();
  if (argc > 1 && std::string_view(argv[1]) == "train") shardmark::note_signals();
  try {
    shardmark::Runtime runtime(argc, argv);
    const shardmark::ExitCode code = shardmark::run_and_report(argc, argv, runtime);
    const bool told = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (!told) std::fprintf(stderr, "shardmark: standard output can't be written to\n");
    runtime.barrier();
    return static_cast<int>(told ? code : shardmark::ExitCode::environment);
  } catch (const shardmark::Error& error) {
    std::fprintf(stderr, "shardmark: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shardmark: start-up failed: %s\n", error.what());
    return static_cast<int>(shardmark::ExitCode::environment);
  }
}
