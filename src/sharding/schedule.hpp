// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "sharding/strategy.hpp"

namespace shardmark {

/// [Note: Schedule] A step is a list of (verb, index), made once from the strategy, the prefetch depth and
/// the micro-batches. The trainer carries it out, the ledger counts its traffic: nobody else decides what
/// happens when.
enum class Verb {
  begin_micro_batch,  ///< index: micro-batch
  unshard,            ///< index: unit. Starts the all-gather
  wait_unsharded,
  forward,  ///< index: stage
  loss,     ///< the last stage, with its own backward when training
  backward,
  reshard,         ///< index: unit. Gives the gathered parameters up
  open_gradients,  ///< index: unit. A zeroed buffer for the whole unit's gradients
  reduce,          ///< index: unit. Starts the reduce-scatter over the shard group
  wait_reduced,
  all_reduce,  ///< index: unit. Starts the all-reduce over the replica group
  wait_all_reduced
};

inline constexpr std::array verb_names = {"begin micro-batch", "unshard",        "wait unsharded",
                                          "forward",           "loss",           "backward",
                                          "reshard",           "open gradients", "reduce",
                                          "wait reduced",      "all-reduce",     "wait all-reduced"};

struct Action {
  Verb verb;
  std::size_t index;
  bool operator==(const Action&) const = default;
};

/// What the schedule needs to know; integers only, no layer and no communicator.
struct ScheduleInput {
  std::vector<std::size_t> unit_of_stage;  ///< in forward order; the last stage is the loss
  std::vector<bool> is_root;               ///< by unit
  Strategy strategy;
  int shard_size = 1;
  int replicas = 1;
  bool copies = false;           ///< unsharded parameters are a copy of their masters: cast, or offloaded
  int prefetch = 1;              ///< k
  int reductions_in_flight = 1;  ///< r
  std::size_t micro_batches = 1;
  std::vector<std::size_t> slices = {};  ///< by unit: elements that the replica group sums
  std::size_t summed_together = 0;  ///< elements for which all-reduces wait to start together; 0: for none
};

/// One optimizer step. Guarantees: besides the root, at most k + 1 units are unsharded at a time where the
/// strategy reshards after forward; at most r of their reductions are in flight; nothing is in flight at the
/// end.
std::vector<Action> make_training_schedule(const ScheduleInput& input);

/// Forward and loss only, for `micro_batches` micro-batches.
std::vector<Action> make_evaluation_schedule(const ScheduleInput& input);

/// Whether units are unsharded at all: else they always are.
bool unshards(const ScheduleInput& input);

/// How often `verb`, which concerns units, is done to each unit in a training step, without making the whole
/// schedule: every micro-batch between the first and the last adds the same.
std::vector<std::uint64_t> counts_in_step(ScheduleInput input, Verb verb);

/// Actions from `first` on that start collectives one after another, at least 1: one call may take them all.
std::size_t started_together(const std::vector<Action>& schedule, std::size_t first);

/// How often `verb` is done to unit `unit`.
std::size_t count(const std::vector<Action>& schedule, Verb verb, std::size_t unit);

}  // namespace shardmark
