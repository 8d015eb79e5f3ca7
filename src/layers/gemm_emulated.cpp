// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <type_traits>

#include "core/kernels.hpp"
#include "layers/gemm_backends.hpp"

namespace shardmark {
namespace {

/// A tile's rows and columns of C and its part of k, at most: 4 MiB with its operands on hosts.
constexpr std::size_t tile_rows = exec_is_host ? 512 : 2048, tile_columns = exec_is_host ? 1024 : 2048,
                      tile_depth = exec_is_host ? 384 : 2048;

/// Floats from one row of a tile to the next: rows at equal places of their pages would share few cache
/// lines.
constexpr std::size_t row_size(std::size_t columns) {
  return columns % 1024 == 0 ? columns + 16 : columns;
}

/// Parts of n, as even as can be and at most so large.
std::size_t even_part(std::size_t n, std::size_t most) {
  const std::size_t parts = (n + most - 1) / most;
  return std::min(n, ((n + parts - 1) / parts + 15) / 16 * 16);
}

constexpr std::size_t room_for(std::size_t rows, std::size_t columns) {
  return std::max(rows * row_size(columns), columns * row_size(rows));
}
constexpr std::size_t room_a = room_for(tile_rows, tile_depth), room_b = room_for(tile_depth, tile_columns),
                      room_c = tile_rows * row_size(tile_columns);

/// Room for a tile of A, then of B, then of C; freed with Kokkos.
float* scratch() {
  static std::unique_ptr<OwnedVector<float>> tiles;
  if (tiles == nullptr) {
    tiles = std::make_unique<OwnedVector<float>>(
        allocate<float>("shardmark::gemm_emulated::tiles", room_a + room_b + room_c));
    Kokkos::push_finalize_hook([] { tiles.reset(); });
  }
  return tiles->data();
}

/// The matrix that begins at (row, column) of `matrix`.
template <class T>
Strided<T> part(const Strided<T>& matrix, std::size_t row, std::size_t column) {
  return {matrix.data + row * matrix.row + column, matrix.row, matrix.batch};
}

}  // namespace

/// A (rows, columns) tile in float: that of a 16-bit matrix is copied to `room`.
template <class A>
Strided<const float> widen(const Exec& exec, std::size_t rows, std::size_t columns,
                           const Strided<const A>& from, float* room) {
  if constexpr (std::is_same_v<A, float>) {
    return from;
  } else {
    const std::size_t to_row = row_size(columns);
    Kokkos::parallel_for(
        "shardmark::gemm_emulated::widen", row_policy(exec, rows), KOKKOS_LAMBDA(const RowMember& member) {
          const A* in = from.data + member.league_rank() * from.row;
          float* out = room + member.league_rank() * to_row;
          row_for(member, columns, [&](std::size_t i) { out[i] = in[i]; });
        });
    return {room, to_row, 0};
  }
}

/// c = tile + beta c, rounded.
template <class C>
void narrow(const Exec& exec, std::size_t rows, std::size_t columns, const Strided<float>& tile, float beta,
            const Strided<C>& c) {
  Kokkos::parallel_for(
      "shardmark::gemm_emulated::narrow", row_policy(exec, rows), KOKKOS_LAMBDA(const RowMember& member) {
        const float* in = tile.data + member.league_rank() * tile.row;
        C* out = c.data + member.league_rank() * c.row;
        if (beta == 0)
          row_for(member, columns, [&](std::size_t i) { out[i] = in[i]; });
        else
          row_for(member, columns, [&](std::size_t i) { out[i] = in[i] + beta * out[i]; });
      });
}

/// The (m, n) tile of C at (row, column): one product of the batch, all of k.
template <class A, class C>
void emulated_tile(const Exec& exec, const Product<A, C>& p, std::size_t row, std::size_t column,
                   std::size_t m, std::size_t n) {
  float *a = scratch(), *b = a + room_a, *c = b + room_b;
  Product<float, float> step{p.op_a, p.op_b, m, n, 0, p.alpha, {}, {}, p.beta, {}, 1};
  if constexpr (std::is_same_v<C, float>) {
    step.c = part(p.c, row, column);
  } else {
    step.c = {c, row_size(n), 0};
    step.beta = 0;
  }
  const std::size_t depth = even_part(p.k, tile_depth);
  for (std::size_t l = 0; l < p.k; l += depth) {
    step.k = std::min(depth, p.k - l);
    step.a = p.op_a == Op::none ? widen(exec, m, step.k, part(p.a, row, l), a)
                                : widen(exec, step.k, m, part(p.a, l, row), a);
    step.b = p.op_b == Op::none ? widen(exec, step.k, n, part(p.b, l, column), b)
                                : widen(exec, n, step.k, part(p.b, column, l), b);
    tile_gemm(exec, step);
    step.beta = 1;
  }
  if constexpr (!std::is_same_v<C, float>) narrow(exec, m, n, step.c, p.beta, part(p.c, row, column));
}

template <class A, class C>
void emulated_gemm(const Exec& exec, const Product<A, C>& product) {
  Product<A, C> one = product;
  const std::size_t rows = even_part(one.m, tile_rows), columns = even_part(one.n, tile_columns);
  for (std::size_t i = 0; i < product.count; ++i) {
    for (std::size_t row = 0; row < one.m; row += rows) {
      for (std::size_t column = 0; column < one.n; column += columns)
        emulated_tile(exec, one, row, column, std::min(rows, one.m - row), std::min(columns, one.n - column));
    }
    one.a.data += one.a.batch;
    one.b.data += one.b.batch;
    one.c.data += one.c.batch;
  }
}

#define SHARDMARK_INSTANTIATE(A, C) template void emulated_gemm(const Exec&, const Product<A, C>&);
SHARDMARK_INSTANTIATE(float, bf16)
SHARDMARK_INSTANTIATE(bf16, float)
SHARDMARK_INSTANTIATE(bf16, bf16)
SHARDMARK_INSTANTIATE(fp16, float)
SHARDMARK_INSTANTIATE(fp16, fp16)

}  // namespace shardmark
