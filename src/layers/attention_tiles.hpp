// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/attention.hpp"

namespace shardmark {

/// [Note: Attention in tiles] The products of causal attention are small, many, and half of each is not
/// wanted: a BLAS spends more time on its preparations than on them. On hosts with 512-bit vectors fp32
/// attention goes through squares of 64 query rows and 64 keys that stay in the first-level cache, with a
/// running softmax (T. Dao et al., "FlashAttention", NeurIPS 2022, algorithms 1 and 4). Scores are computed
/// transposed, S^T = K Q^T: then only Q is transposed, once for all its keys, and a vector holds 16 rows, so
/// that softmax has no sums across a vector. The backward pass has, with P = exp(S - log_sums) and
/// D = rowsum(dout out),
///
///   dV += P^T dout,  dS^T = P^T (V dout^T - D),  dK += dS^T Q,  dQ += (dS^T)^T K.
///
/// On the calling thread. Arguments are those of attention_forward() and attention_backward().

/// Whether attention is computed so: such a host, an Exec of one thread, heads of up to 256.
bool attention_has_tiles(const AttentionShape& shape);
/// Floats.
std::size_t tiled_attention_scratch_size(const AttentionShape& shape);

void tiled_attention_forward(const AttentionShape& shape, const Matrix<const float>& qkv,
                             const Matrix<float>& out, const Vector<float>& log_sums,
                             const Vector<float>& scratch);
void tiled_attention_backward(const AttentionShape& shape, const Matrix<const float>& dout,
                              const Matrix<const float>& qkv, const Matrix<const float>& out,
                              const Vector<const float>& log_sums, const Matrix<float>& dqkv,
                              const Vector<float>& scratch);

/// C (m, n) = A B by itself, as the products above are computed, for benchmarks: A (m, k), or (k, m) where
/// `transposed`, B (k, n).
void tiled_attention_product(bool transposed, std::size_t m, std::size_t n, std::size_t k, const float* a,
                             const float* b, float* c);

}  // namespace shardmark
