// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/node_layout.hpp"

#include <algorithm>

#include "comm/mpi_call.hpp"

namespace shardmark {

namespace {

int rank_in(MPI_Comm comm) {
  int rank = 0;
  SHARDMARK_MPI(MPI_Comm_rank(comm, &rank));
  return rank;
}

int size_of_group(MPI_Comm comm) {
  int size = 0;
  SHARDMARK_MPI(MPI_Comm_size(comm, &size));
  return size;
}

Handle<MpiCommTraits> split_by(MPI_Comm comm, int color, int key) {
  MPI_Comm part;
  SHARDMARK_MPI(MPI_Comm_split(comm, color, key, &part));
  return Handle<MpiCommTraits>(part);
}

std::vector<int> gather(MPI_Comm comm, int value) {
  std::vector<int> values(size_of_group(comm));
  SHARDMARK_MPI(MPI_Allgather(&value, 1, MPI_INT, values.data(), 1, MPI_INT, comm));
  return values;
}

}  // namespace

Handle<MpiCommTraits> node_part(MPI_Comm comm, const MpiShared& shared) {
  MPI_Comm node;
  SHARDMARK_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank_in(comm), MPI_INFO_NULL, &node));
  Handle<MpiCommTraits> whole(node);
  return shared.virtual_node < 0 ? std::move(whole) : split_by(node, shared.virtual_node, rank_in(node));
}

NodeLayout find_nodes(MPI_Comm comm, const MpiShared& shared) {
  NodeLayout layout;
  layout.node = node_part(comm, shared);
  layout.members = gather(layout.node.get(), shared.world_rank);
  layout.own_place = rank_in(layout.node.get());
  layout.place_of = gather(comm, layout.own_place);

  // A node is known by its first rank.
  int first = rank_in(comm);
  SHARDMARK_MPI(MPI_Bcast(&first, 1, MPI_INT, 0, layout.node.get()));
  const std::vector<int> first_of = gather(comm, first);
  std::vector<int> firsts = first_of;
  std::sort(firsts.begin(), firsts.end());
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
  for (int of_rank : first_of)
    layout.node_of.push_back(
        static_cast<int>(std::lower_bound(firsts.begin(), firsts.end(), of_rank) - firsts.begin()));
  layout.nodes = static_cast<int>(firsts.size());
  layout.own_node = layout.node_of[rank_in(comm)];

  const std::vector<int> sizes = gather(comm, size_of_group(layout.node.get()));
  const bool equal = std::equal(sizes.begin() + 1, sizes.end(), sizes.begin());
  layout.ranks = equal ? sizes.front() : 0;
  if (!equal) return layout;
  layout.rank_of.resize(sizes.size());
  for (std::size_t rank = 0; rank < sizes.size(); ++rank)
    layout.rank_of[layout.node_of[rank] * layout.ranks + layout.place_of[rank]] = static_cast<int>(rank);
  layout.peers = split_by(comm, layout.own_place, layout.own_node);
  return layout;
}

}  // namespace shardmark
