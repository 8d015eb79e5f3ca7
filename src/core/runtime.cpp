// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "core/runtime.hpp"

#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace shardmark {

namespace {

/// Kokkos gets its own options only, which are taken out of argv: it answers --help and others too.
void initialize_kokkos(int& argc, char** argv) {
  const auto is_own = [](const char* argument) {
    return std::string_view(argument).starts_with("--kokkos-");
  };
  const auto end = std::stable_partition(argv + 1, argv + argc, [&](const char* a) { return !is_own(a); });
  std::vector<char*> own = {argv[0]};
  own.insert(own.end(), end, argv + argc);
  int own_count = static_cast<int>(own.size());
  own.push_back(nullptr);
  argc -= own_count - 1;
  argv[argc] = nullptr;
  Kokkos::initialize(own_count, own.data());
}

}  // namespace

Runtime::Runtime(int& argc, char**& argv) {
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
    throw EnvironmentError("MPI_Init_thread failed");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  if (provided < MPI_THREAD_MULTIPLE) {
    throw Error(ExitCode::environment,
                "this MPI provides thread level " + std::to_string(provided) +
                    " only; MPI_THREAD_MULTIPLE is needed: use an MPI built with thread support",
                true);
  }
  initialize_kokkos(argc, argv);
}

Runtime::~Runtime() {
  Kokkos::finalize();
  MPI_Finalize();
}

void Runtime::barrier() const {
  MPI_Barrier(MPI_COMM_WORLD);
}

void Runtime::abort(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

int Runtime::mpi_world() {
  return static_cast<int>(MPI_Comm_c2f(MPI_COMM_WORLD));
}

}  // namespace shardmark
