// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/attention.hpp"

namespace shardmark {

/// [Note: Fused attention] A team has one tile of query rows of one head and goes through the keys, tile by
/// tile, with a running softmax: no score leaves scratch memory, which is a device's shared memory. M.
/// Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018; T. Dao et al.,
/// "FlashAttention", NeurIPS 2022. The gradients of queries and of keys and values are two kernels, each of
/// which computes the scores again and adds up in one order: no atomics. Products are those of [Note: Team
/// tiles]. attention.hpp uses it on devices; it runs on hosts, too, where the other way is faster.

/// Whether tiles of these heads fit in scratch memory.
template <class T>
bool attention_fuses(const AttentionShape& shape);

/// Elements of Wide<T> in the scratch of the backward pass: one for each row of each head.
inline std::size_t fused_attention_scratch_size(const AttentionShape& shape) {
  return shape.samples * shape.heads * shape.tokens;
}

/// As in attention.hpp.
template <class T>
void fused_attention_forward(const Exec& exec, const AttentionShape& shape, const Matrix<const T>& qkv,
                             const Matrix<T>& out, const Vector<Wide<T>>& log_sums);
template <class T>
void fused_attention_backward(const Exec& exec, const AttentionShape& shape, const Matrix<const T>& dout,
                              const Matrix<const T>& qkv, const Matrix<const T>& out,
                              const Vector<const Wide<T>>& log_sums, const Matrix<T>& dqkv,
                              const Vector<Wide<T>>& scratch);

}  // namespace shardmark
