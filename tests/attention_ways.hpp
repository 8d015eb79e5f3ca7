// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "gradient_check.hpp"
#include "layers/attention_fused.hpp"

namespace shardmark {

/// Attention as a build takes it, or fused ([Note: Fused attention]), with all memory that it needs.
template <class T>
struct AttentionRun {
  AttentionShape shape;
  bool fused;
  std::size_t rows = shape.samples * shape.tokens;
  OwnedVector<T> qkv;
  OwnedVector<T> out = constant_tensor<T>(rows * shape.width, std::nan(""));
  OwnedVector<Wide<T>> log_sums = constant_tensor<Wide<T>>(rows * shape.heads, std::nan(""));
  OwnedVector<Wide<T>> scratch = constant_tensor<Wide<T>>(
      fused ? fused_attention_scratch_size(shape) : attention_scratch_size<T>(shape), std::nan(""));
  OwnedVector<T> dqkv = constant_tensor<T>(rows * 3 * shape.width, std::nan(""));

  AttentionRun(const AttentionShape& s, bool is_fused, const OwnedVector<T>& input)
      : shape(s), fused(is_fused), qkv(input) {}
  AttentionRun(const AttentionShape& s, bool is_fused)
      : AttentionRun(s, is_fused, random_tensor<T>("qkv", s.samples * s.tokens * 3 * s.width)) {}

  void forward() {
    const Exec exec;
    const auto input = as_matrix<T>(qkv, rows, 3 * shape.width),
               output = as_matrix<T>(out, rows, shape.width);
    if (fused)
      fused_attention_forward<T>(exec, shape, input, output, log_sums);
    else
      attention_forward<T>(exec, shape, input, output, log_sums, scratch);
    exec.fence();
  }
  std::vector<T> backward(const OwnedVector<T>& dout) {
    const Exec exec;
    const auto input = as_matrix<T>(qkv, rows, 3 * shape.width),
               output = as_matrix<T>(out, rows, shape.width),
               gradient = as_matrix<T>(dout, rows, shape.width),
               result = as_matrix<T>(dqkv, rows, 3 * shape.width);
    if (fused)
      fused_attention_backward<T>(exec, shape, gradient, input, output, log_sums, result, scratch);
    else
      attention_backward<T>(exec, shape, gradient, input, output, log_sums, result, scratch);
    exec.fence();
    return to_host(dqkv);
  }
};

}  // namespace shardmark
