// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/types.hpp"
#include "layers/into.hpp"

namespace shardmark {

/// y = x W^T + b + residual. x (N, I), weight (O, I), bias (O), residual and y (N, O). An empty bias or an
/// empty residual is left out. y may be the residual. Y is T or Wide<T>; a 16-bit y is rounded twice, before
/// and after the product is added, where there is a bias or a residual.
template <class T, class Y>
void linear_forward(const Exec& exec, const Matrix<const T>& x, const Matrix<const T>& weight,
                    const Vector<const T>& bias, const Matrix<const T>& residual, const Matrix<Y>& y);

/// Writes dy^T x to dweight or adds it, adds the column sums of dy to dbias, and writes dy W to dx. dy (N,
/// O), the rest like linear_forward. An empty dbias or an empty dx is left out. The gradient of the residual
/// is dy itself.
template <class T, class G>
void linear_backward(const Exec& exec, const Matrix<const T>& dy, const Matrix<const T>& x,
                     const Matrix<const T>& weight, const Matrix<G>& dweight, const Vector<G>& dbias,
                     const Matrix<T>& dx, Into into_weight);

}  // namespace shardmark
