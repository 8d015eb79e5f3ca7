// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/tile_products.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(KOKKOS_ENABLE_CUDA)

namespace shardmark {
namespace {

using Lanes = float __attribute__((vector_size(64)));
using AnyLanes = float __attribute__((vector_size(64), aligned(4), may_alias));  // at any address
using Index = int __attribute__((vector_size(64)));
constexpr std::size_t lanes = 16;

// 6 x 4 vectors of sums, the vectors of a row of B and one element of A: 29 of 32 registers.
constexpr std::size_t strip_rows = 6, strip_vectors = 4, panel = strip_vectors * lanes;

/// Part of a product: rows R and vectors V of C at a time. Element (r, l) of A is at r row_a + l step_a.
struct Strip {
  std::size_t k;
  float alpha, beta;
  const float* a;
  std::size_t row_a, step_a;
  const float* b;
  std::size_t row_b;
  float* c;
  std::size_t row_c;
};

template <std::size_t R, std::size_t V>
void multiply_strip(const Strip& strip) {
  const std::size_t row_a = strip.row_a, step_a = strip.step_a, row_b = strip.row_b;
  const float *a = strip.a, *b = strip.b;
  Lanes sums[R][V] = {};
  for (std::size_t l = 0; l < strip.k; ++l, a += step_a, b += row_b) {
    Lanes right[V];
    for (std::size_t v = 0; v < V; ++v) right[v] = *reinterpret_cast<const AnyLanes*>(b + v * lanes);
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t v = 0; v < V; ++v) sums[r][v] += a[r * row_a] * right[v];
  }
  for (std::size_t r = 0; r < R; ++r) {
    for (std::size_t v = 0; v < V; ++v) {
      AnyLanes& c = *reinterpret_cast<AnyLanes*>(strip.c + r * strip.row_c + v * lanes);
      if (strip.beta == 0)
        c = strip.alpha * sums[r][v];
      else
        c = strip.alpha * sums[r][v] + strip.beta * c;
    }
  }
}

using StripFunction = void (*)(const Strip&);
template <std::size_t... I>
constexpr std::array<StripFunction, sizeof...(I)> strip_functions(std::index_sequence<I...>) {
  return {&multiply_strip<I / strip_vectors + 1, I % strip_vectors + 1>...};
}

/// Columns that fill no vector, and their rows.
void multiply_rest(const Strip& strip, std::size_t rows, std::size_t columns) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < columns; ++j) {
      float sum = 0, &c = strip.c[r * strip.row_c + j];
      for (std::size_t l = 0; l < strip.k; ++l)
        sum += strip.a[r * strip.row_a + l * strip.step_a] * strip.b[l * strip.row_b + j];
      c = strip.alpha * sum + (strip.beta == 0 ? 0 : strip.beta * c);
    }
  }
}

void multiply(const Strip& strip, std::size_t rows, std::size_t columns) {
  static constexpr auto functions = strip_functions(std::make_index_sequence<strip_rows * strip_vectors>());
  const std::size_t vectors = columns / lanes, rest = columns % lanes;
  if (vectors > 0) functions[(rows - 1) * strip_vectors + vectors - 1](strip);
  if (rest == 0) return;
  Strip last = strip;
  last.b += vectors * lanes;
  last.c += vectors * lanes;
  multiply_rest(last, rows, rest);
}

/// Exchanges what lies off the diagonal of blocks of 2 x 2 squares with `Size` rows.
template <std::size_t Size>
void exchange_squares(Lanes (&rows)[lanes]) {
  Index upper, lower;
  for (std::size_t j = 0; j < lanes; ++j) {
    const bool right = (j & Size) != 0;
    upper[j] = static_cast<int>(right ? lanes + j - Size : j);
    lower[j] = static_cast<int>(right ? lanes + j : j + Size);
  }
  for (std::size_t i = 0; i < lanes; ++i) {
    if ((i & Size) != 0) continue;
    const Lanes x = rows[i], y = rows[i + Size];
    rows[i] = __builtin_shuffle(x, y, upper);
    rows[i + Size] = __builtin_shuffle(x, y, lower);
  }
}

/// to (k, panel) = the transpose of from (columns, k).
void transpose(std::size_t columns, std::size_t k, const float* from, std::size_t row, float* to) {
  const std::size_t whole_columns = columns / lanes * lanes, whole_k = k / lanes * lanes;
  for (std::size_t j = 0; j < whole_columns; j += lanes) {
    for (std::size_t l = 0; l < whole_k; l += lanes) {
      Lanes square[lanes];
      for (std::size_t i = 0; i < lanes; ++i)
        square[i] = *reinterpret_cast<const AnyLanes*>(from + (j + i) * row + l);
      exchange_squares<1>(square);
      exchange_squares<2>(square);
      exchange_squares<4>(square);
      exchange_squares<8>(square);
      for (std::size_t i = 0; i < lanes; ++i)
        *reinterpret_cast<AnyLanes*>(to + (l + i) * panel + j) = square[i];
    }
  }
  for (std::size_t j = 0; j < columns; ++j)
    for (std::size_t l = j < whole_columns ? whole_k : 0; l < k; ++l) to[l * panel + j] = from[j * row + l];
}

}  // namespace

bool has_tile_products() {
  return Exec().concurrency() == 1;
}

void tile_product(const TileProduct& p) {
  if (p.op_b == Op::transpose && p.k > tile_product_terms)
    throw std::length_error("tile product: too many terms");
  alignas(64) float transposed[tile_product_terms * panel];
  const bool direct = p.op_a == Op::none;
  for (std::size_t j = 0; j < p.n; j += panel) {
    const std::size_t width = std::min(panel, p.n - j);
    if (p.op_b == Op::transpose) transpose(width, p.k, p.b.data + j * p.b.row, p.b.row, transposed);
    for (std::size_t i = 0; i < p.m; i += strip_rows) {
      const std::size_t rows = std::min(strip_rows, p.m - i), seen = p.first + i + rows;
      std::size_t columns = width, begin = 0, end = p.k;
      if (p.causal == Causal::columns) {
        if (seen <= j) continue;
        columns = std::min(columns, (seen - j + lanes - 1) / lanes * lanes);
      } else if (p.causal == Causal::terms) {
        end = std::min(end, seen);
      } else if (i > p.first) {
        begin = std::min(end, i - p.first);
      }
      Strip strip{end - begin,
                  p.alpha,
                  p.beta,
                  p.a.data,
                  p.a.row,
                  1,
                  p.b.data + begin * p.b.row + j,
                  p.b.row,
                  p.c.data + i * p.c.row + j,
                  p.c.row};
      strip.a += direct ? i * p.a.row + begin : begin * p.a.row + i;
      if (!direct) std::swap(strip.row_a, strip.step_a);
      if (p.op_b == Op::transpose) {
        strip.b = transposed + begin * panel;
        strip.row_b = panel;
      }
      multiply(strip, rows, columns);
    }
  }
}

}  // namespace shardmark

#else

namespace shardmark {

bool has_tile_products() {
  return false;
}
void tile_product(const TileProduct&) {
  throw std::logic_error("tile product: this build has none");
}

}  // namespace shardmark
#endif
