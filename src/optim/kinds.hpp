// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "optim/optimizer.hpp"

namespace shardmark {

// One maker a kind of optimizer, each in its own file; make_optimizer lists them. T is float or double.
template <class T>
std::unique_ptr<Optimizer<T>> make_adamw(const OptimizerConfig& config,
                                         const std::vector<std::size_t>& slices);
template <class T>
std::unique_ptr<Optimizer<T>> make_sgd(const OptimizerConfig& config, const std::vector<std::size_t>& slices);

/// The elements of a segment, counted in 64 bits on devices too.
inline auto segment_policy(const Exec& exec, const Segment& segment) {
  return Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::size_t>>(exec, 0, segment.size());
}

/// One state tensor of every unit, zeroed: as long as the unit's shard.
template <class T>
std::vector<OwnedVector<T>> make_state(const std::string& name, const std::vector<std::size_t>& slices) {
  std::vector<OwnedVector<T>> state;
  for (std::size_t length : slices) state.emplace_back("shardmark::optimizer::" + name, length);
  return state;
}

}  // namespace shardmark
