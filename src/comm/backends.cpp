// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "comm/mpi_call.hpp"
#include "comm/nccl.hpp"
#include "comm/node.hpp"
#include "comm/staged.hpp"
#include "core/runtime.hpp"

namespace shardmark {

namespace {

template <class Small>
void add_small_floats(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const Small*>(in);
  auto* b = static_cast<Small*>(inout);
  for (int i = 0; i < *count; ++i) b[i] = Small::from(a[i].to_float() + b[i].to_float());
}

template <class Small>
Handle<MpiOpTraits> make_sum() {
  MPI_Op op;
  SHARDMARK_MPI(MPI_Op_create(&add_small_floats<Small>, /*commute=*/1, &op));
  return Handle<MpiOpTraits>(op);
}

/// Numbers the nodes of the job anew, `ranks` of a real node each.
int virtual_node_of(MPI_Comm world, const MpiShared& shared, int ranks) {
  const NodeLayout real = find_nodes(world, shared);
  return real.own_place / ranks;
}

}  // namespace

std::unique_ptr<Communicator> make_group(MPI_Comm comm, std::shared_ptr<MpiShared> shared) {
  int size = 1;
  SHARDMARK_MPI(MPI_Comm_size(comm, &size));
  if (shared->windows != nullptr && size > 1) {
    NodeLayout layout = find_nodes(comm, *shared);
    if (layout.ranks > 1) return std::make_unique<NodeCommunicator>(comm, shared, std::move(layout));
  }
  return std::make_unique<MpiCommunicator>(comm, std::move(shared));
}

std::vector<std::string> comm_backends() {
  return {"auto", "mpi", "node", "nccl"};
}

std::unique_ptr<Communicator> make_world_communicator(const std::string& backend,
                                                      const CommOptions& options) {
  const auto known = comm_backends();
  if (std::find(known.begin(), known.end(), backend) == known.end())
    throw DeckError("comm.backend = \"" + backend + "\" is unknown; valid: auto, mpi, node, nccl");
  if (backend == "node" && !exec_is_host)
    throw DeckError("comm.backend = \"node\" is for builds that compute on the host; valid: auto, mpi");
  if (backend != "mpi" && options.staging == Staging::always)
    throw DeckError("comm.staging = \"always\" goes with comm.backend = \"mpi\" only; valid: auto, never");
  const MPI_Comm comm = MPI_Comm_f2c(Runtime::mpi_world());
  auto shared = std::make_shared<MpiShared>();
  shared->largest_count = options.largest_count;
  shared->bf16_sum = make_sum<bf16>();
  shared->fp16_sum = make_sum<fp16>();
  if (options.progress == CommProgress::worker) shared->worker.emplace();
  SHARDMARK_MPI(MPI_Comm_rank(comm, &shared->world_rank));
  if (options.ranks_per_node > 0)
    shared->virtual_node = virtual_node_of(comm, *shared, options.ranks_per_node);
  if (backend == "nccl") return make_nccl_world(std::move(shared), options.timeout);
  if (backend != "mpi" && exec_is_host) shared->windows = std::make_unique<SharedWindows>();
  if (shared->windows == nullptr) return make_mpi_world(std::move(shared), options.staging);
  auto world = make_group(comm, std::move(shared));
  if (backend == "node" && world->size() > 1 && world->host_max(world->ranks_on_node()) == 1)
    throw DeckError("comm.backend = \"node\": no two ranks share a node; valid: auto, mpi");
  return world;
}

}  // namespace shardmark
