// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/attention.hpp"

namespace shardmark {

/// [Note: Attention in tiles] The products of causal attention are small, many, and half of each is not
/// wanted: a BLAS spends more time on its preparations than on them. On hosts with 512-bit vectors attention
/// (of 16 bits, where no library multiplies them as they are) goes through squares of 64 query rows and 64
/// keys that stay in the first-level cache, with a running softmax (T. Dao et al., "FlashAttention", NeurIPS
/// 2022, algorithms 1 and 4). Scores are computed transposed, S^T = K Q^T: then only Q is transposed, once
/// for all its keys, and a vector holds 16 rows, so that softmax has no sums across a vector. The backward
/// pass has, with P = exp(S - log_sums) and D = rowsum(dout out),
///
///   dV += P^T dout,  dS^T = P^T (V dout^T - D),  dK += dS^T Q,  dQ += (dS^T)^T K.
///
/// Heads of bf16 and fp16 are first copied to float, and results are rounded once.
///
/// On the calling thread, for T of float, bf16 and fp16. Arguments are those of attention_forward() and
/// attention_backward().

/// Whether hosts can compute attention so: 512-bit vectors, an Exec of one thread, heads of up to 256.
bool attention_has_tiles(const AttentionShape& shape);
/// Floats: two squares and two transposed tiles, and of a 16-bit T the eight matrices of a head.
template <class T>
std::size_t tiled_attention_scratch_size(const AttentionShape& shape);

template <class T>
void tiled_attention_forward(const AttentionShape& shape, const Matrix<const T>& qkv, const Matrix<T>& out,
                             const Vector<float>& log_sums, const Vector<float>& scratch);
template <class T>
void tiled_attention_backward(const AttentionShape& shape, const Matrix<const T>& dout,
                              const Matrix<const T>& qkv, const Matrix<const T>& out,
                              const Vector<const float>& log_sums, const Matrix<T>& dqkv,
                              const Vector<float>& scratch);

/// C (m, n) = A B by itself, as the products above are computed, for benchmarks: A (m, k), or (k, m) where
/// `transposed`, B (k, n).
void tiled_attention_product(bool transposed, std::size_t m, std::size_t n, std::size_t k, const float* a,
                             const float* b, float* c);

}  // namespace shardmark
