// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.hpp"

namespace shardmark {

/// All ranks on each back end: MPI, the node, and nodes of two ranks each.
inline std::vector<std::unique_ptr<Communicator>> worlds(CommProgress progress,
                                                         std::size_t largest = default_largest_count) {
  std::vector<std::unique_ptr<Communicator>> all;
  all.push_back(make_world_communicator("mpi", {largest, progress}));
  if constexpr (exec_is_host)
    for (int ranks_per_node : {0, 2})
      all.push_back(make_world_communicator("node", {largest, progress, Staging::automatic, ranks_per_node}));
  return all;
}

}  // namespace shardmark
