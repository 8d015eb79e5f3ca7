// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "layers/gemm.hpp"

namespace shardmark {

/// [Note: Tile products] The products of causal attention are small, many, and half of each is not wanted: a
/// BLAS spends more time on its preparations than on them. On hosts with 512-bit vectors they are computed
/// here instead, in strips of few rows that leave out what the mask hides. fp32, on the calling thread.
enum class Causal {
  columns,  ///< row i of C has columns j <= first + i; the others are anything
  terms,    ///< row i of C sums terms l <= first + i
  rows      ///< row i of C sums terms l >= i - first
};

/// C (m, n) = alpha op(A) op(B) + beta C, as in gemm(), as far as `causal` asks for; the rest of A must be
/// zero where a strip takes more than that.
struct TileProduct {
  Op op_a, op_b;
  std::size_t m, n, k;
  float alpha;
  Strided<const float> a, b;
  float beta;
  Strided<float> c;
  Causal causal;
  std::size_t first;
};

/// Terms of a product with a transposed B, at most.
inline constexpr std::size_t tile_product_terms = 256;

/// Whether there are such products here: a host with 512-bit vectors where Exec has one thread.
bool has_tile_products();

void tile_product(const TileProduct& product);

}  // namespace shardmark
