// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Macros.hpp>

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(KOKKOS_ENABLE_CUDA)
#define SHARDMARK_HAS_STRIPS  // else this file has nothing

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

/// Vectors of 16 floats, and small products of matrices that stay in cache: for processors with AVX-512 only.
namespace shardmark::strips {

using Lanes = float __attribute__((vector_size(64)));
using AnyLanes = float __attribute__((vector_size(64), aligned(4), may_alias));  // at any address
inline constexpr std::size_t lanes = 16;

inline Lanes load(const float* from) {
  return *reinterpret_cast<const AnyLanes*>(from);
}
inline void store(const Lanes& value, float* to) {
  *reinterpret_cast<AnyLanes*>(to) = value;
}
inline Lanes all(float value) {
  return value - Lanes{};
}
/// a from lane `first` on, b before.
inline Lanes from_lane(std::size_t first, const Lanes& a, const Lanes& b) {
  return _mm512_mask_mov_ps(b, static_cast<__mmask16>(0xFFFFu << first), a);
}
inline float inner_product(std::size_t n, const float* a, const float* b) {
  Lanes sums = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) sums += load(a + i) * load(b + i);
  float sum = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) sum += sums[lane];
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Masked functions with all lanes in: GCC 12 warns about the others.
inline constexpr __mmask16 every_lane = 0xFFFF;

/// The larger one, lane by lane; b where one is NaN.
inline Lanes max(const Lanes& a, const Lanes& b) {
  return _mm512_maskz_max_ps(every_lane, a, b);
}

/// e^x for x up to 88, -infinity and NaN, to 2 units in the last place, and 0 where it would be subnormal:
/// what makes subnormals takes a hundred times as long. Reduction as in math::exp, with its polynomial.
inline Lanes exp(const Lanes& argument) {
  const Lanes lowest = all(-87.3f), x = max(lowest, argument);
  const __mmask16 normal = _mm512_cmp_ps_mask(argument, lowest, _CMP_NLT_UQ);
  const Lanes n =
      _mm512_maskz_roundscale_ps(every_lane, x * 1.44269504f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const Lanes r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  const Lanes low = 8.3687808e-3f * r + 4.1668393e-2f, high = 1.66665196e-1f * r + 4.9999994e-1f;
  const Lanes square = r * r;
  const Lanes q = (1.3814467e-3f * square + low) * square + high;
  return _mm512_maskz_scalef_ps(normal, q * square + (r + 1), n);
}

/// Which part of a product is wanted where keys after a row's own token are hidden.
enum class Part {
  all,
  columns_from,  ///< row i of C has columns j >= i; those before, but for up to 15, are not touched
  terms_to,      ///< row i of C sums terms l <= i, and up to 5 more, for which A must be zero
  terms_from     ///< row i of C sums terms l >= i
};

/// C (m, n) = alpha A B + beta C, as far as `part` asks for. Element (i, l) of A is at i row_a + l step_a. C
/// may lie over neither A nor B.
struct Product {
  std::size_t m, n, k;
  float alpha;
  const float* a;
  std::size_t row_a, step_a;
  const float* b;
  std::size_t row_b;
  float beta;
  float* c;
  std::size_t row_c;
};

// 6 x 4 vectors of sums, the vectors of a row of B and one element of A: 29 of 32 registers.
inline constexpr std::size_t strip_rows = 6, strip_vectors = 4, panel = strip_vectors * lanes;

/// R rows and V vectors of columns. Unrolled, the sums are registers.
template <std::size_t R, std::size_t V>
void multiply_strip(const Product& p) {
  const std::size_t row_a = p.row_a, step_a = p.step_a, row_b = p.row_b;
  const float *a = p.a, *b = p.b;
  Lanes sums[R][V];
#pragma GCC unroll 6
  for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < V; ++v) sums[r][v] = Lanes{};
  for (std::size_t l = 0; l < p.k; ++l, a += step_a, b += row_b) {
#pragma GCC unroll 6
    for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (std::size_t v = 0; v < V; ++v) sums[r][v] += a[r * row_a] * load(b + v * lanes);
  }
#pragma GCC unroll 6
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < V; ++v) {
      float* c = p.c + r * p.row_c + v * lanes;
      store(p.beta == 0 ? p.alpha * sums[r][v] : p.alpha * sums[r][v] + p.beta * load(c), c);
    }
  }
}

template <std::size_t... I>
constexpr auto strip_functions(std::index_sequence<I...>) {
  return std::array{&multiply_strip<I / strip_vectors + 1, I % strip_vectors + 1>...};
}

/// Columns that fill no vector.
inline void multiply_rest(const Product& p, std::size_t rows, std::size_t columns) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < columns; ++j) {
      float sum = 0, &c = p.c[r * p.row_c + j];
      for (std::size_t l = 0; l < p.k; ++l) sum += p.a[r * p.row_a + l * p.step_a] * p.b[l * p.row_b + j];
      c = p.alpha * sum + (p.beta == 0 ? 0 : p.beta * c);
    }
  }
}

inline void multiply(const Product& p, Part part = Part::all) {
  static constexpr auto functions = strip_functions(std::make_index_sequence<strip_rows * strip_vectors>());
  for (std::size_t panel_start = 0; panel_start < p.n; panel_start += panel) {
    const std::size_t panel_end = std::min(p.n, panel_start + panel);
    for (std::size_t i = 0; i < p.m; i += strip_rows) {
      const std::size_t rows = std::min(strip_rows, p.m - i);
      std::size_t j = panel_start, begin = 0, end = p.k;
      if (part == Part::columns_from) j = std::max(j, i / lanes * lanes);
      if (part == Part::terms_to) end = std::min(end, i + rows);
      if (part == Part::terms_from) begin = std::min(end, i);
      if (j >= panel_end) continue;
      Product strip = p;
      strip.k = end - begin;
      strip.a += i * p.row_a + begin * p.step_a;
      strip.b += begin * p.row_b + j;
      strip.c += i * p.row_c + j;
      const std::size_t vectors = (panel_end - j) / lanes, rest = (panel_end - j) % lanes;
      if (vectors > 0) functions[(rows - 1) * strip_vectors + vectors - 1](strip);
      if (rest == 0) continue;
      strip.b += vectors * lanes;
      strip.c += vectors * lanes;
      multiply_rest(strip, rows, rest);
    }
  }
}

/// Exchanges what lies off the diagonal of blocks of 2 x 2 squares with `Size` rows.
template <std::size_t Size>
void exchange_squares(Lanes (&rows)[lanes]) {
  alignas(64) int from_upper[lanes], from_lower[lanes];
  for (std::size_t j = 0; j < lanes; ++j) {
    const bool right = (j & Size) != 0;
    from_upper[j] = static_cast<int>(right ? lanes + j - Size : j);
    from_lower[j] = static_cast<int>(right ? lanes + j : j + Size);
  }
  const __m512i upper = _mm512_load_si512(from_upper), lower = _mm512_load_si512(from_lower);
  for (std::size_t i = 0; i < lanes; ++i) {
    if ((i & Size) != 0) continue;
    const Lanes x = rows[i], y = rows[i + Size];
    rows[i] = _mm512_permutex2var_ps(x, upper, y);
    rows[i + Size] = _mm512_permutex2var_ps(x, lower, y);
  }
}

/// to (columns, panel) = factor times the transpose of from (rows, columns), rows <= panel, and zeros up to
/// whole vectors of rows.
inline void transpose(std::size_t rows, std::size_t columns, const float* from, std::size_t row_from,
                      float factor, float* to) {
  const std::size_t whole_rows = rows / lanes * lanes, whole_columns = columns / lanes * lanes;
  for (std::size_t i = 0; i < whole_rows; i += lanes) {
    for (std::size_t j = 0; j < whole_columns; j += lanes) {
      Lanes square[lanes];
      for (std::size_t k = 0; k < lanes; ++k) square[k] = factor * load(from + (i + k) * row_from + j);
      exchange_squares<1>(square);
      exchange_squares<2>(square);
      exchange_squares<4>(square);
      exchange_squares<8>(square);
      for (std::size_t k = 0; k < lanes; ++k) store(square[k], to + (j + k) * panel + i);
    }
  }
  const std::size_t padded_rows = (rows + lanes - 1) / lanes * lanes;
  for (std::size_t i = 0; i < padded_rows; ++i)
    for (std::size_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j)
      to[j * panel + i] = i < rows ? factor * from[i * row_from + j] : 0;
}

}  // namespace shardmark::strips

#endif
