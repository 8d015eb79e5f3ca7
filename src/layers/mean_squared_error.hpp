// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/types.hpp"

namespace shardmark {

/// Adds the sum of (outputs - responses)^2 over all outputs to loss_sum(0), in double. Both (B, O).
template <class T>
void mean_squared_error(const Exec& exec, const Matrix<const T>& outputs, const Matrix<const T>& responses,
                        const Vector<double>& loss_sum);

/// The same, and outputs becomes the gradient of loss_scale x that sum; the mean over the terms of a global
/// batch is loss_scale = 1 / (samples x O).
template <class T>
void mean_squared_error_and_gradient(const Exec& exec, double loss_scale, const Matrix<T>& outputs,
                                     const Matrix<const T>& responses, const Vector<double>& loss_sum);

}  // namespace shardmark
