// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/mpi.hpp"
#include "comm/node_layout.hpp"
#include "comm/node_work.hpp"

namespace shardmark {

/// [Note: Node back end] Buffers of collectives lie in windows that the ranks of a node share, so that a
/// collective is direct loads from the others' memory. A collective is a few steps, and a rank does a step
/// when all ranks of its node have done the one before:
///
///   all-gather      tell where the buffer is | copy the others' slices
///   reduce-scatter  tell | sum the own slice over all buffers, in the order of ranks, while reading them
///   all-reduce      tell | sum a part in place | copy the others' parts
///   broadcast       tell | copy from the root
///
/// and it is over when all have done the last step: then nobody reads this rank's buffer any more. Sums have
/// one order, so the same ranks give the same bits.
///
/// Across nodes, ranks with the same place on their nodes (peers) exchange over MPI what their node needs
/// once: of an all-gather their slices, before the copying; of a reduce-scatter their node's sums, which each
/// then adds up in the order of nodes; an all-reduce has an MPI all-reduce of the parts between its steps. So
/// 16-bit sums are rounded once a node, and once more (in an all-reduce as often as MPI adds).
///
/// In common memory, which groups on one node have, the slices are where all ranks see them: the all-gather
/// has nothing to copy.
///
/// Memory that is not from allocate() of a group with all these ranks goes piece by piece through a buffer of
/// one MiB a rank in a window of this communicator: one copy in and one out.
///
/// A page that several ranks have read is part of the resident size (VmHWM, RssShmem) of each of them, but
/// is there once: what a node holds is the sum of the proportional sizes (Pss).
class NodeCommunicator final : public MpiCommunicator {
 public:
  NodeCommunicator(MPI_Comm comm, std::shared_ptr<MpiShared> shared, NodeLayout layout);

  std::string backend() const override { return layout_.nodes == 1 ? "node" : "node+mpi"; }
  bool has_common_memory() const override { return layout_.nodes == 1; }

 protected:
  std::shared_ptr<void> allocate_bytes(std::size_t bytes, const std::string& label, CommMemory) override;
  Pending all_gather(const Exec&, void* whole, std::size_t slice, Dtype) override;
  Pending reduce_scatter(const Exec&, void* whole, void* out, std::size_t slice, Dtype) override;
  Pending all_reduce(const Exec&, void* data, std::size_t n, Dtype, Reduction) override;
  Pending broadcast(const Exec&, void* data, std::size_t n, Dtype, int root) override;

 private:
  using Steps = std::vector<NodeStep>;
  /// A buffer of a collective: this rank's, and by its place on the node, once that has told, each other's.
  struct Area {
    char* own;
    std::function<char*(int)> of;
  };
  /// The bounce buffers, and how many bytes of them a piece may have.
  struct Bounce {
    Area area;
    std::size_t bytes;
  };

  void add_all_gather(Steps& steps, const Area& whole, std::size_t slice, Dtype dtype) const;
  void add_reduce_scatter(Steps& steps, const Area& whole, char* out, std::size_t slice, Dtype dtype) const;
  void add_all_reduce(Steps& steps, const Area& data, std::size_t n, Dtype dtype, Reduction op) const;
  void add_broadcast(Steps& steps, const Area& data, std::size_t bytes, int root) const;

  /// Where the buffer lies as the others know it; nothing where it is to go through the bounce buffers.
  std::optional<Area> area_of(void* data, std::size_t bytes, NodeNotice& notice) const;
  Bounce bounce();
  Pending start(const NodeNotice& notice, Steps steps);

  NodeLayout layout_;
  SharedWindow board_window_;
  NodeBoard board_;
  std::optional<SharedWindow> bounce_window_;  ///< made when first needed
  NodeQueue queue_;
};

}  // namespace shardmark
