// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shardmark {

/// MPI, the device and Kokkos as one guard: the first object of main, and the last to go. It picks the device
/// by node-local rank. Throws EnvironmentError where MPI lacks the thread level asked for.
class Runtime {
 public:
  Runtime(int& argc, char**& argv);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Waits for all ranks: output is flushed before it, since launchers end the others at the first non-zero
  /// exit.
  void barrier() const;

  /// Ends the whole job with `code` now, for an error that other ranks do not know of. Any thread may call
  /// it.
  [[noreturn]] static void abort(int code);

  /// All ranks of the job, as MPI_Comm_c2f gives them.
  static int mpi_world();

 private:
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace shardmark
