// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/types.hpp"
#ifdef KOKKOS_ENABLE_CUDA
#include "core/cuda_call.hpp"
#endif

namespace shardmark {

/// An instance beside the default one: on devices with a stream of its own, on hosts, which do one thing
/// after the other, the default.
Exec make_instance();

/// A point in the work of an instance, for others to begin after. On CUDA an event of its stream; on hosts
/// nothing, since functions that launch return when the work is done; elsewhere whoever waits fences.
class Event {
 public:
  /// The point is behind all that was launched on `exec` so far.
  void record(const Exec& exec);
  /// What is launched on `exec` from now on begins after the point; at once where none was recorded.
  void hold(const Exec& exec) const;
  /// Blocks the host until then. The reason is for the reader.
  void wait(const char* reason) const;

 private:
#ifdef KOKKOS_ENABLE_CUDA
  CudaEvent event_;
#else
  std::optional<Exec> exec_;
#endif
};

}  // namespace shardmark
