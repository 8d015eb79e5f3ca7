// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comm/mesh.hpp"
#include "sharding/schedule.hpp"
#include "sharding/sharded_unit.hpp"
#include "train/config.hpp"
#include "train/ledger.hpp"

namespace shardmark {

/// All that follows from a deck and the number of ranks alone, before any memory is taken: what a run does,
/// holds and sends. The trainer is built from it, and the ledger's predictions are made of it.
struct Plan {
  ModelSpec model;
  UnitGroups units;
  std::vector<UnitLayout> layouts;  ///< by unit
  ScheduleInput schedule;           ///< of a training step
  Residence residence;
  int ranks = 1;

  std::size_t parameter_count() const;
};

/// `shard_size`: S, which divides `ranks`; `shares`: shares_parameters() of its shard groups. Throws
/// DeckError where the model's config makes no sense.
Plan make_plan(const RunConfig& config, int ranks, int shard_size, bool shares = false);
/// For this mesh.
Plan make_plan(const RunConfig& config, const Mesh& mesh);

/// Micro-batches of the rank with most of `samples`.
std::size_t micro_batches_for(std::uint64_t samples, int ranks, std::size_t micro_batch);

/// Elements of host memory for a copy of all that one rank saves and that its host holds no other copy of.
std::size_t snapshot_elements(const RunConfig& config, const Plan& plan);

/// Bytes that one rank allocates, by class. Copies for saving are those of checkpoint.async, and on devices
/// those of any deck that saves, in pinned
/// host memory.
MemoryBytes predict_memory(const RunConfig& config, const Plan& plan);

/// What one training step puts through each collective of the shard group and the replica group together.
TrafficByKind predict_traffic(const RunConfig& config, const Plan& plan);

}  // namespace shardmark
