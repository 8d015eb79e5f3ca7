// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mesh.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <map>

#include "core/device.hpp"

namespace shardmark {

std::vector<int> valid_shard_sizes(int ranks) {
  std::vector<int> sizes;
  for (int size = 1; size <= ranks; ++size)
    if (ranks % size == 0) sizes.push_back(size);
  return sizes;
}

Mesh make_mesh(const Communicator& world, int shard_size) {
  if (shard_size == 0) {
    shard_size = world.ranks_on_node();
    if (world.host_max(shard_size) != -world.host_max(-shard_size))
      throw DeckError(
          fmt::format("parallel.shard_size = 0 means the ranks of a node, but nodes hold different "
                      "numbers of ranks; valid: {}",
                      fmt::join(valid_shard_sizes(world.size()), ", ")));
  }
  if (shard_size < 1 || world.size() % shard_size != 0)
    throw DeckError(fmt::format("parallel.shard_size = {} does not divide the {} ranks; valid: {}",
                                shard_size, world.size(), fmt::join(valid_shard_sizes(world.size()), ", ")));
  Mesh mesh;
  mesh.shard_size = shard_size;
  mesh.replicas = world.size() / shard_size;
  mesh.shard = world.rank() % shard_size;
  mesh.replica = world.rank() / shard_size;
  mesh.shard_group = world.split(mesh.replica, mesh.shard);
  mesh.replica_group = world.split(mesh.shard, mesh.replica);
  mesh.everyone = world.split(0, world.rank());
  return mesh;
}

std::string device_fault(const std::vector<std::string>& uuids, bool allowed, const std::string& backend) {
  const bool nccl = backend == "nccl";
  if (allowed && !nccl) return "";
  std::map<std::string, std::size_t> first_with;
  for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
    const auto [first, is_new] = first_with.emplace(uuids[rank], rank);
    if (is_new || uuids[rank].empty()) continue;
    return fmt::format(
        "ranks {} and {} share the device {}: start at most as many ranks a node as it has devices{}",
        first->second, rank, uuids[rank],
        nccl ? "; NCCL needs one for each"
             : ", or set comm.share_device = true, which comm.backend = \"mpi\" allows");
  }
  return "";
}

void require_own_devices(const Communicator& world, const std::string& uuid, bool allowed) {
  const std::string fault = device_fault(world.host_gather(uuid), allowed, world.backend());
  if (!fault.empty()) throw Error(ExitCode::environment, fault, true);
}

namespace {

std::string describe_device() {
  if (exec_is_host) return "host";
  const std::string uuid = device_uuid();
  return fmt::format("{}{}, MPI {} device memory", Exec::name(),
                     uuid.empty() ? "" : fmt::format(" {} ({}), {}", device_name(), uuid, device_topology()),
                     mpi_is_gpu_aware() ? "reads" : "does not read");
}

}  // namespace

std::vector<std::string> describe(const Communicator& world, const Mesh& mesh) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return world.host_gather(fmt::format("rank {} on {}: shard {}, replica {}, {}", world.rank(), host,
                                       mesh.shard, mesh.replica, describe_device()));
}

}  // namespace shardmark
