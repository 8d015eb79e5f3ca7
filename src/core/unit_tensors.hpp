// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/parameter.hpp"
#include "core/shard_layout.hpp"
#include "core/types.hpp"

namespace shardmark {

/// Zero-copy Views of the tensors in a unit's flat buffer: what a model sees of its weights and gradients.
template <class T>
class UnitTensors {
 public:
  /// Counts from parameter `first`: merged units lie one after the other in one buffer.
  UnitTensors(T* flat, const std::vector<Parameter>& parameters, const UnitLayout& layout,
              std::size_t first = 0)
      : flat_(flat), parameters_(&parameters), layout_(&layout), first_(first) {}

  /// Parameter i as a flat View.
  Vector<T> vector(std::size_t i) const {
    return Vector<T>(flat_ + layout_->offsets[first_ + i], (*parameters_)[first_ + i].size());
  }
  /// Parameter i, which has two dimensions, in its own shape.
  Matrix<T> matrix(std::size_t i) const {
    const auto& shape = (*parameters_)[first_ + i].shape;
    return Matrix<T>(flat_ + layout_->offsets[first_ + i], shape[0], shape[1]);
  }

 private:
  T* flat_;
  const std::vector<Parameter>* parameters_;
  const UnitLayout* layout_;
  std::size_t first_;
};

}  // namespace shardmark
