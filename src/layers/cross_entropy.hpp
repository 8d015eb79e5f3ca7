// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/precision.hpp"
#include "core/types.hpp"

namespace shardmark {

/// The targets of rows [first, first + N) of a batch: column t + 1 of tokens (B, T + 1) belongs to row b T +
/// t.
struct Targets {
  Matrix<const std::int32_t> tokens;
  std::size_t first = 0;

  KOKKOS_INLINE_FUNCTION std::int32_t operator()(std::size_t row) const {
    const std::size_t context = tokens.extent(1) - 1, r = first + row;
    return tokens(r / context, r % context + 1);
  }
};

/// Adds the sum over the rows of -ln softmax(logits)[target], in nats, to loss_sum(0). logits (N, V) are left
/// alone. losses (N) is scratch.
template <class T>
void cross_entropy(const Exec& exec, const Matrix<const Wide<T>>& logits, const Targets& targets,
                   const Vector<double>& losses, const Vector<double>& loss_sum);

/// The same, and writes the gradient of loss_scale x that sum to dlogits (N, V): loss_scale (softmax -
/// one-hot target). What logits hold afterwards does not matter; dlogits may be the same memory where T is
/// Wide<T>.
template <class T>
void cross_entropy_and_gradient(const Exec& exec, double loss_scale, const Matrix<Wide<T>>& logits,
                                const Targets& targets, const Vector<double>& losses,
                                const Vector<double>& loss_sum, const Matrix<T>& dlogits);

}  // namespace shardmark
