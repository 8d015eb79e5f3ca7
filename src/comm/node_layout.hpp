// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comm/mpi.hpp"

namespace shardmark {

/// How the ranks of a group lie on nodes: on `nodes` nodes with `ranks` places each.
struct NodeLayout {
  Handle<MpiCommTraits> node;   ///< the group's ranks on this rank's node, in the group's order
  Handle<MpiCommTraits> peers;  ///< those with this rank's place on their nodes, by node
  int nodes = 1;
  int ranks = 1;  ///< 0: nodes have different numbers
  int own_node = 0;
  int own_place = 0;
  std::vector<int> members;   ///< world ranks of the node's places
  std::vector<int> rank_of;   ///< node x ranks + place -> rank in the group
  std::vector<int> node_of;   ///< rank in the group -> node
  std::vector<int> place_of;  ///< rank in the group -> place

  int rank_at(int on_node, int place) const { return rank_of[on_node * ranks + place]; }
};

/// The ranks of `comm` that share memory with this rank, and its virtual node where there are such.
Handle<MpiCommTraits> node_part(MPI_Comm comm, const MpiShared& shared);

/// Collective over `comm`.
NodeLayout find_nodes(MPI_Comm comm, const MpiShared& shared);

}  // namespace shardmark
