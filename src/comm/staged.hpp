// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/mpi.hpp"

namespace shardmark {

/// All ranks of the job, collectives of Views by MPI. Host memory goes there directly. Of a device's memory
/// sums are staged, and moves where MPI does not read it; with Staging::never nothing is, or EnvironmentError
/// on all ranks where MPI does not read it. Collective.
std::unique_ptr<Communicator> make_mpi_world(std::shared_ptr<MpiShared> shared, Staging staging);

/// MPI for Views whose memory it can't read: collectives go through buffers in host memory, pinned on builds
/// for a device, which are kept for the next ones. start_… fences `exec` once, after the copy to the buffer;
/// wait() fences it after the copy back. With `sums_only` gathers and broadcasts are MPI's own: libraries
/// that move a device's memory mostly can't add in it, least of all in non-blocking collectives and by an
/// operation of the user's, and crash.
class StagedCommunicator final : public MpiCommunicator {
 public:
  StagedCommunicator(MPI_Comm comm, std::shared_ptr<MpiShared> shared, bool sums_only = false)
      : MpiCommunicator(comm, shared), shared_all_(std::move(shared)), sums_only_(sums_only) {}

  std::string backend() const override { return sums_only_ ? "mpi, sums staged" : "mpi, staged"; }
  std::unique_ptr<Communicator> split(int color, int key) const override;

 protected:
  void make_ready(const Exec&) override {}  // the copies are in order
  bool buffers_on_host() const override { return true; }
  Pending all_gather(const Exec&, void* whole, std::size_t slice, Dtype) override;
  Pending reduce_scatter(const Exec&, void* whole, void* out, std::size_t slice, Dtype) override;
  Pending all_reduce(const Exec&, void* data, std::size_t n, Dtype, Reduction) override;
  Pending broadcast(const Exec&, void* data, std::size_t n, Dtype, int root) override;

 private:
  using Buffer = Kokkos::View<char*, Kokkos::LayoutRight, PinnedSpace>;
  struct Work;
  /// A buffer of at least `bytes` that no collective holds.
  std::shared_ptr<Buffer> lease(std::size_t bytes);

  std::shared_ptr<MpiShared> shared_all_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  bool sums_only_;
};

}  // namespace shardmark
