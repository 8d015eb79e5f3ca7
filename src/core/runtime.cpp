// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "core/runtime.hpp"

#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cstdlib>

#include "core/error.hpp"

namespace shardmark {

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
  Kokkos::initialize(argc, argv);
}

Runtime::~Runtime() {
  Kokkos::finalize();
  MPI_Finalize();
}

void Runtime::barrier() const {
  MPI_Barrier(MPI_COMM_WORLD);
}

void Runtime::abort(int code) const {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::exit(code);
}

}  // namespace shardmark
