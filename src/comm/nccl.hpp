// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "comm/mpi.hpp"
#ifdef SHARDMARK_HAVE_NCCL
#include "comm/nccl_engine.hpp"
#endif

namespace shardmark {

/// All ranks of the job, collectives of Views by NCCL. Throws DeckError where this build can't have them, and
/// EnvironmentError where two ranks share a device. Collective.
std::unique_ptr<Communicator> make_nccl_world(std::shared_ptr<MpiShared> shared, double timeout);

#ifdef SHARDMARK_HAVE_NCCL
/// Collectives of Views by NCCL, on a stream of their own ([Note: NCCL engine]); all else by MPI.
///
/// start_… returns when the collective is enqueued behind what was launched on `exec`. wait() makes `exec`
/// wait for the result, not the host: kernels launched on it afterwards see the result, and so does the host
/// after a fence of it. Buffers are free for what is launched on `exec` after wait(). A Pending that goes
/// without wait() does block the host. The time that collectives take is not seen by the host: times() holds
/// that of starting and waiting.
///
/// Communicators are made at their first collective, all ranks of a group at the same place, from an id that
/// the group's rank 0 makes and MPI broadcasts: groups that never communicate cost no device memory, and the
/// order is that of the schedule, the same on all ranks (shard groups before replica groups). Groups of one
/// have none. group_calls() hands small ones to NCCL in one call, whose own time is in nobody's times().
///
/// All dtypes go natively; NCCL rounds each addition of 16-bit floats to 16 bits.
class NcclCommunicator final : public MpiCommunicator {
 public:
  NcclCommunicator(MPI_Comm comm, std::shared_ptr<MpiShared> shared, std::shared_ptr<NcclEngine> engine);
  ~NcclCommunicator() override;

  std::string backend() const override { return "nccl"; }
  std::unique_ptr<Communicator> split(int color, int key) const override;
  std::size_t grouped_bytes() const override { return NcclEngine::grouped_bytes; }

 protected:
  void make_ready(const Exec&) override;
  void open_group() override { engine_->open_group(); }
  void close_group() override { engine_->close_group(); }
  void drop_group() override { engine_->drop_group(); }
  Pending all_gather(const Exec&, void* whole, std::size_t slice, Dtype) override;
  Pending reduce_scatter(const Exec&, void* whole, void* out, std::size_t slice, Dtype) override;
  Pending all_reduce(const Exec&, void* data, std::size_t n, Dtype, Reduction) override;
  Pending broadcast(const Exec&, void* data, std::size_t n, Dtype, int root) override;

 private:
  struct Work;
  template <class Enqueue>
  Pending launch(const Exec& exec, const char* function, std::size_t count, Dtype dtype, Enqueue enqueue);

  std::shared_ptr<MpiShared> shared_;
  std::shared_ptr<NcclEngine> engine_;
  ncclComm_t nccl_ = nullptr;  ///< owned by the engine
};
#endif

}  // namespace shardmark
