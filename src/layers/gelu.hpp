// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/types.hpp"

namespace shardmark {

/// y = x / 2 (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3): the tanh form of Hendrycks and Gimpel 2016,
/// computed as x / (1 + e^(-2u)), which is the same. x is `slope` + bias (C) as it comes in; it leaves as
/// dy/dx, which is all that the backward pass needs and costs little beside y. slope and y (N, C).
template <class T>
void gelu_forward(const Exec& exec, const Vector<const T>& bias, const Matrix<T>& slope, const Matrix<T>& y);

/// dy becomes the gradient with respect to x, in place.
template <class T>
void gelu_backward(const Exec& exec, const Matrix<const T>& slope, const Matrix<T>& dy);

}  // namespace shardmark
