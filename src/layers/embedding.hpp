// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/types.hpp"

namespace shardmark {

/// Row b T + t of x = wte(tokens(b, t)) + wpe(t). tokens (B, T + 1), of which the last column is not read and
/// all values are below V; wte (V, C), wpe (T, C), x (B T, C).
template <class T>
void embedding_forward(const Exec& exec, const Matrix<const std::int32_t>& tokens, const Matrix<const T>& wte,
                       const Matrix<const T>& wpe, const Matrix<T>& x);

/// Adds to dwte and dwpe, shaped like wte and wpe. dx (B T, C).
template <class T, class G>
void embedding_backward(const Exec& exec, const Matrix<const std::int32_t>& tokens, const Matrix<const T>& dx,
                        const Matrix<G>& dwte, const Matrix<G>& dwpe);

}  // namespace shardmark
