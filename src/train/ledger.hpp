// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "sharding/schedule.hpp"
#include "train/trainer.hpp"

namespace shardmark {

/// Classes of memory. The first three are the model state.
enum class MemoryClass {
  parameters,            ///< between steps: slices, or whole ones
  gradients,             ///< likewise
  optimizer,             ///< exp_avg, exp_avg_sq, momentum
  unsharded_parameters,  ///< slots of gathered units
  unsharded_gradients,   ///< slots of gradients on their way to the reduction
  activations,
  other
};
inline constexpr std::array memory_class_names = {
    "parameters",          "gradients",   "optimizer", "unsharded_parameters",
    "unsharded_gradients", "activations", "other"};

using MemoryBytes = std::array<std::uint64_t, memory_class_names.size()>;

/// Watches every Kokkos allocation of this process while it lives, sorted by label. One at a time; callbacks
/// of a tool that the user loaded are called on.
class MemoryLedger {
 public:
  MemoryLedger();
  ~MemoryLedger();
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  MemoryBytes current() const;
  MemoryBytes peak() const;

  static MemoryClass class_of(const std::string& label);
};

/// Bytes of model state of one rank by the design's formulas, padding left out: with n parameters of b bytes
/// and S shards, ddp 4bn; zero1 2bn + 2bn/S; zero2, zero3, hybrid 4bn/S (AdamW; SGD has one state in place of
/// two).
MemoryBytes predict_model_state(std::size_t parameters, std::size_t bytes_per_element,
                                const Strategy& strategy, int shard_size, std::size_t optimizer_states);

/// What one training step puts through each collective of the shard group and the replica group together,
/// from the schedule and the units' layouts.
template <class T>
std::array<Traffic, collective_names.size()> predict_traffic(const Trainer<T>& trainer, const Mesh& mesh);

/// The traffic of both groups so far.
std::array<Traffic, collective_names.size()> measured_traffic(const Mesh& mesh);

/// The times of both groups' collectives so far.
TimeByKind measured_times(const Mesh& mesh);

/// The largest resident size of this process so far, from the operating system (VmHWM); 0 where unknown.
std::uint64_t peak_resident_bytes();

}  // namespace shardmark
