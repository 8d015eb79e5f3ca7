// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "core/runtime.hpp"

#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.hpp"
#include "core/error.hpp"

namespace shardmark {

namespace {

int rank_on_node() {
  MPI_Comm node;
  int rank = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &rank);
  MPI_Comm_free(&node);
  return rank;
}

/// Kokkos' own options and variables choose a device, too.
bool user_chose_device(const std::vector<char*>& options) {
  if (std::getenv("KOKKOS_DEVICE_ID") != nullptr || std::getenv("KOKKOS_MAP_DEVICE_ID_BY") != nullptr)
    return true;
  return std::any_of(options.begin(), options.end(), [](const char* option) {
    const std::string_view text(option);
    return text.starts_with("--kokkos-device-id") || text.starts_with("--kokkos-map-device-id-by");
  });
}

/// Kokkos gets its own options only, which are taken out of argv: it answers --help and others too.
void initialize_kokkos(int& argc, char** argv) {
  const auto is_own = [](const char* argument) {
    return std::string_view(argument).starts_with("--kokkos-");
  };
  const auto end = std::stable_partition(argv + 1, argv + argc, [&](const char* a) { return !is_own(a); });
  std::vector<char*> own = {argv[0]};
  own.insert(own.end(), end, argv + argc);
  argc -= static_cast<int>(own.size()) - 1;
  argv[argc] = nullptr;
  std::string device;
  if (!user_chose_device(own)) {
    const int chosen = choose_device(rank_on_node());
    if (chosen >= 0) own.push_back((device = "--kokkos-device-id=" + std::to_string(chosen)).data());
  }
  int own_count = static_cast<int>(own.size());
  own.push_back(nullptr);
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
