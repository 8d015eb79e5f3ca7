// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardmark {

class Communicator;
class Deck;

/// [Note: Strategies] What a strategy keeps whole and what it shards over the shard group. ZeRO: S.
/// Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC 2020; FSDP:
/// Y. Zhao et al., VLDB 2023.
struct Strategy {
  enum class ShardGroup { one, all, chosen };  ///< S = 1, S = P, or parallel.shard_size

  const char* name;
  const char* alias;
  ShardGroup shard_group;
  bool parameters_whole;  ///< between steps; else only while a unit is unsharded
  bool gradients_whole;   ///< a full buffer, reduced once a step; else reduced every micro-batch into shards
  bool reshard_after_forward;  ///< gather again for the backward pass
};

inline constexpr std::array strategies = {
    Strategy{"ddp", "no_shard", Strategy::ShardGroup::one, true, true, false},
    Strategy{"zero1", "zero1", Strategy::ShardGroup::all, true, true, false},
    Strategy{"zero2", "shard_grad_op", Strategy::ShardGroup::all, false, false, false},
    Strategy{"zero3", "full_shard", Strategy::ShardGroup::all, false, false, true},
    Strategy{"hybrid", "hsdp", Strategy::ShardGroup::chosen, false, false, true},
};

/// What has its home in host memory between uses: nothing, the optimizer state, or the master weights too.
enum class Offload { none, optimizer, all };

/// How the ranks of a shard group on one node get at each other's parameters where those are sharded: by
/// copying them together, or by reading them where they lie.
enum class Unshard { automatic, copy, share };

/// The [parallel] section.
struct ParallelConfig {
  Strategy strategy;            ///< with reshard_after_forward and accumulate put in
  int shard_size = 0;           ///< hybrid: ranks of a shard group, 0 = a node
  int prefetch = 1;             ///< k: units gathered ahead of the one in use
  std::size_t unit_params = 0;  ///< neighbouring units are merged up to so many parameters, 0 = none are
  Offload offload = Offload::none;
  Unshard unshard = Unshard::automatic;
  bool poison_padding = false;             ///< NaN in all padding: it must reach nothing
  std::uint64_t check_replicas_every = 0;  ///< steps between comparisons of replicas, 0 = none

  /// r: reductions in flight.
  int reductions_in_flight() const { return prefetch > 1 ? prefetch : 1; }
  /// S for P ranks, or 0 where it is left to the node.
  int shard_size_for(int ranks) const;
};

ParallelConfig read_parallel_config(Deck& deck);

/// Whether the shard group reads parameters where they lie: with parallel.unshard = auto wherever it can.
/// DeckError where it is told to and can't. A group of one rank has nothing to share.
bool shares_parameters(const ParallelConfig& config, const Communicator& shard_group);

}  // namespace shardmark
