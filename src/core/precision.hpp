// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/small_float.hpp"

namespace shardmark {

// [Note: Precisions] T is the type of unsharded parameters and activations, G that of gradients of
// parameters, Wide<T> the type in which values of T are added up. A result is rounded to T or G once, at its
// end.

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

template <class T>
using Wide = typename detail::WideOf<T>::type;

}  // namespace shardmark

/// X(T) for every T that a run may have.
#define SHARDMARK_FOR_SCALARS(X) X(float) X(double) X(bf16) X(fp16)

/// X(T, G) for every pair that a run may have.
#define SHARDMARK_FOR_PRECISIONS(X) \
  X(float, float) X(double, double) X(float, bf16) X(bf16, float) X(bf16, bf16) X(fp16, float)

/// X(M, G) for the pairs of master weights Wide<T> and gradients among these.
#define SHARDMARK_FOR_MASTERS(X) X(float, float) X(double, double) X(float, bf16)
