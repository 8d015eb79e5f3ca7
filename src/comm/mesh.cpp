// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mesh.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

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

void require_own_devices(const Communicator& world, const std::string& sentence) {
  const std::vector<std::string> uuids = world.host_gather(device_uuid());
  for (std::size_t b = 0; b < uuids.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (!uuids[a].empty() && uuids[a] == uuids[b])
        throw Error(ExitCode::environment,
                    fmt::format("ranks {} and {} share the device {}: {}", a, b, uuids[a], sentence), true);
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
