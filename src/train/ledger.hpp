// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/mesh.hpp"

namespace shardmark {

/// Classes of memory of one rank. The first four, and what is offloaded of them, are the model state.
enum class MemoryClass {
  parameters,            ///< between steps: slices, or whole ones
  masters,               ///< of 16-bit parameters
  gradients,             ///< between steps, like the parameters
  optimizer,             ///< exp_avg, exp_avg_sq, momentum
  offloaded,             ///< masters and optimizer state in host memory
  staging,               ///< slots for what comes from there
  unsharded_parameters,  ///< slots of gathered units
  unsharded_gradients,   ///< slots of gradients on their way to the reduction
  activations,
  logits,
  communication,  ///< buffers of a back end's own
  checkpoint,     ///< copies that a save is made from
  other
};
inline constexpr std::array memory_class_names = {"parameters",
                                                  "masters",
                                                  "gradients",
                                                  "optimizer",
                                                  "offloaded",
                                                  "staging",
                                                  "unsharded_parameters",
                                                  "unsharded_gradients",
                                                  "activations",
                                                  "logits",
                                                  "communication",
                                                  "checkpoint",
                                                  "other"};
inline constexpr std::array model_state_classes = {MemoryClass::parameters, MemoryClass::masters,
                                                   MemoryClass::gradients, MemoryClass::optimizer,
                                                   MemoryClass::offloaded};

/// Where memory is. On host builds all is in host memory.
enum class MemoryPlace { device, pinned, host };
inline constexpr std::array memory_place_names = {"device", "pinned", "host"};
using PlaceBytes = std::array<std::uint64_t, memory_place_names.size()>;

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
  PlaceBytes peak_by_place() const;

  static MemoryClass class_of(const std::string& label);
  /// By the name of a Kokkos memory space.
  static MemoryPlace place_of(const std::string& space);
};

/// The traffic of both groups so far, and its time.
TrafficByKind measured_traffic(const Mesh& mesh);
TimeByKind measured_times(const Mesh& mesh);

template <std::size_t N>
std::uint64_t sum_of(const std::array<std::uint64_t, N>& bytes) {
  std::uint64_t sum = 0;
  for (std::uint64_t part : bytes) sum += part;
  return sum;
}

/// Bytes of host memory that this process may still take: MemAvailable, or what the cgroup's limit leaves
/// where that is less; 0 where the system does not tell.
std::uint64_t available_memory();
/// Free bytes of the device; 0 on host builds and where the device does not tell.
std::uint64_t available_device_memory();

/// The largest resident size of this process so far, from the operating system (VmHWM); 0 where unknown.
std::uint64_t peak_resident_bytes();

}  // namespace shardmark
