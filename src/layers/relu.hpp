// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/types.hpp"

namespace shardmark {

/// y = max(y, 0) in place; NaN stays NaN. y (N, C).
template <class T>
void relu_forward(const Exec& exec, const Matrix<T>& y);

/// dy becomes the gradient before the relu, in place: zero where its output y is not positive.
template <class T>
void relu_backward(const Exec& exec, const Matrix<const T>& y, const Matrix<T>& dy);

}  // namespace shardmark
