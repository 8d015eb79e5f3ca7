// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/small_float.hpp"

namespace shardmark {

namespace detail {
template <class T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<bf16> {
  using type = float;
};
template <>
struct WideOf<fp16> {
  using type = float;
};
}  // namespace detail

/// The type in which values of T are added up, and that of the master weights: float for 16-bit T, else T.
template <class T>
using Wide = typename detail::WideOf<T>::type;

}  // namespace shardmark

/// X(T, G) for each pair that a run may have: T of unsharded parameters and activations, G of gradients.
#define SHARDMARK_FOR_PRECISIONS(X) X(float, float) X(double, double)
/// X(M, G) for each pair of master weights and gradients among these.
#define SHARDMARK_FOR_MASTERS(X) X(float, float) X(double, double)
