// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/precision.hpp"
#include "core/types.hpp"
#include "layers/into.hpp"

namespace shardmark {

/// Statistics of each row that layernorm_backward needs, both (N).
template <class T>
struct LayernormStatistics {
  Vector<T> mean;
  Vector<T> rstd;  ///< 1 / sqrt(variance + epsilon)
};

inline constexpr double layernorm_epsilon = 1e-5;

/// y = gamma (x - mean) rstd + beta over each row (Ba, Kiros, Hinton 2016). x and y (N, C), gamma and beta
/// (C).
template <class T>
void layernorm_forward(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& gamma,
                       const Vector<const T>& beta, const Matrix<T>& y,
                       const LayernormStatistics<Wide<T>>& statistics);

/// Adds to dgamma and dbeta (C); writes the gradient with respect to x to dx or adds it (N, C).
template <class T, class G>
void layernorm_backward(const Exec& exec, const Matrix<const T>& dy, const Matrix<const T>& x,
                        const Vector<const T>& gamma, const LayernormStatistics<Wide<T>>& statistics,
                        const Vector<G>& dgamma, const Vector<G>& dbeta, const Matrix<T>& dx, Into into);

}  // namespace shardmark
