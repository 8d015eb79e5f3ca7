// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "core/precision.hpp"
#include "core/types.hpp"

namespace shardmark {

struct AttentionShape {
  std::size_t samples;  ///< B
  std::size_t tokens;   ///< T
  std::size_t heads;    ///< H
  std::size_t width;    ///< C, a multiple of H
};

/// Elements of Wide<T> in the scratch that the two functions below need for up to so many samples.
template <class T>
std::size_t attention_scratch_size(const AttentionShape& shape);

/// Query rows of a tile, see [Note: Attention tiles].
std::size_t attention_tile_rows(const AttentionShape& shape);

/// Causal multi-head attention (Vaswani et al. 2017): out = softmax(Q K^T / sqrt(C / H)) V for each head,
/// where token t sees tokens 0..t. qkv (B T, 3C): columns Q, K, V, each H heads of C / H; out (B T, C).
/// log_sums (B H T): the logarithm of each row's softmax denominator, for the backward pass.
///
/// [Note: Attention tiles] No T x T matrix is stored. Scores exist for a tile of query rows at a time,
/// against the keys up to the tile's last row only; the backward pass computes them again from Q, K and
/// log_sums. Scores, probabilities and their gradients are computed in Wide<T>. A 16-bit T has copies of the
/// last two rounded to T, which enter the products with V, K, Q and dout; and the gradients of K and V, to
/// which every tile adds, are added up in Wide<T> and rounded once a head. Devices have [Note: Fused
/// attention] instead, and fp32 on hosts with 512-bit vectors [Note: Attention in tiles], where heads are
/// narrow enough for it.
template <class T>
void attention_forward(const Exec& exec, const AttentionShape& shape, const Matrix<const T>& qkv,
                       const Matrix<T>& out, const Vector<Wide<T>>& log_sums, const Vector<Wide<T>>& scratch);

/// Writes dqkv, shaped like qkv. dout (B T, C); out and log_sums are those of the forward pass.
template <class T>
void attention_backward(const Exec& exec, const AttentionShape& shape, const Matrix<const T>& dout,
                        const Matrix<const T>& qkv, const Matrix<const T>& out,
                        const Vector<const Wide<T>>& log_sums, const Matrix<T>& dqkv,
                        const Vector<Wide<T>>& scratch);

}  // namespace shardmark
