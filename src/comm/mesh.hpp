// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace shardmark {

/// R replicas x S shards over P = R x S ranks: rank = replica x S + shard. A shard group holds one copy of
/// the model state among its S ranks; the R ranks of a replica group hold the same shard.
struct Mesh {
  int shard_size = 1;  ///< S
  int replicas = 1;    ///< R
  int shard = 0;       ///< this rank's place in its shard group
  int replica = 0;     ///< this rank's place in its replica group
  std::unique_ptr<Communicator> shard_group;
  std::unique_ptr<Communicator> replica_group;
  std::unique_ptr<Communicator> everyone;  ///< all P ranks: what it allocates is for both groups
};

/// Shard sizes that `ranks` allows: its divisors, in order.
std::vector<int> valid_shard_sizes(int ranks);

/// Collective. `shard_size` 0 means the ranks of a node. Throws DeckError where the size does not divide P.
Mesh make_mesh(const Communicator& world, int shard_size);

/// What is wrong where two ranks compute on one device, or nothing. `uuids`: of each rank's device, empty
/// without one. UUIDs tell devices of different nodes apart, and one device seen from two containers they do
/// not. `allowed`: that ranks share one, which backend "nccl" can't do.
std::string device_fault(const std::vector<std::string>& uuids, bool allowed, const std::string& backend);

/// Throws Error(environment) on all ranks where device_fault() finds one. `uuid`: device_uuid(). Collective.
void require_own_devices(const Communicator& world, const std::string& uuid, bool allowed);

/// A line a rank: rank, host, shard, replica, and the device: "host", or the execution space, on CUDA builds
/// the device's number, name and UUID, and whether MPI reads its memory. Collective.
std::vector<std::string> describe(const Communicator& world, const Mesh& mesh);

}  // namespace shardmark
