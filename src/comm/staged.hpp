// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/mpi.hpp"

namespace shardmark {

/// All ranks of the job, collectives of Views by MPI: directly where MPI reads their memory, else staged
/// where `staging` allows that, else EnvironmentError on all ranks. Collective.
std::unique_ptr<Communicator> make_mpi_world(std::shared_ptr<MpiShared> shared, Staging staging);

/// MPI for Views whose memory it can't read: collectives go through buffers in host memory, pinned on builds
/// for a device, which are kept for the next ones. start_… fences `exec` once, after the copy to the buffer;
/// wait() fences it after the copy back.
class StagedCommunicator final : public MpiCommunicator {
 public:
  StagedCommunicator(MPI_Comm comm, std::shared_ptr<MpiShared> shared)
      : MpiCommunicator(comm, shared), shared_all_(std::move(shared)) {}

  std::string backend() const override { return "mpi, staged"; }
  std::unique_ptr<Communicator> split(int color, int key) const override;

 protected:
  void make_ready(const Exec&) override {}  // the copies are in order
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
};

}  // namespace shardmark
