// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <type_traits>

#include "core/kernels.hpp"
#include "layers/gemm_backends.hpp"

namespace shardmark {
namespace {

/// Rows and columns of a tile at most: 1 MiB in float on hosts, 16 MiB on devices.
constexpr std::size_t tile_extent = exec_is_host ? 512 : 2048;
constexpr std::size_t tile_size = tile_extent * tile_extent;

/// Room for a tile of A, of B and of C; freed with Kokkos.
float* scratch_tile(std::size_t which) {
  static std::unique_ptr<OwnedVector<float>> scratch;
  if (scratch == nullptr) {
    scratch = std::make_unique<OwnedVector<float>>(
        allocate<float>("shardmark::gemm_emulated::tiles", 3 * tile_size));
    Kokkos::push_finalize_hook([] { scratch.reset(); });
  }
  return scratch->data() + which * tile_size;
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
    Kokkos::parallel_for(
        "shardmark::gemm_emulated::widen", row_policy(exec, rows), KOKKOS_LAMBDA(const RowMember& member) {
          const A* in = from.data + member.league_rank() * from.row;
          float* out = room + member.league_rank() * columns;
          row_for(member, columns, [&](std::size_t i) { out[i] = in[i]; });
        });
    return {room, columns, 0};
  }
}

/// c = tile + beta c, rounded.
template <class C>
void narrow(const Exec& exec, std::size_t rows, std::size_t columns, const float* tile, float beta,
            const Strided<C>& c) {
  Kokkos::parallel_for(
      "shardmark::gemm_emulated::narrow", row_policy(exec, rows), KOKKOS_LAMBDA(const RowMember& member) {
        const float* in = tile + member.league_rank() * columns;
        C* out = c.data + member.league_rank() * c.row;
        if (beta == 0)
          row_for(member, columns, [&](std::size_t i) { out[i] = in[i]; });
        else
          row_for(member, columns, [&](std::size_t i) { out[i] = in[i] + beta * out[i]; });
      });
}

/// The tile of C at (row, column): one product of the batch, all of k.
template <class A, class C>
void emulated_tile(const Exec& exec, const Product<A, C>& p, std::size_t row, std::size_t column) {
  const std::size_t m = std::min(tile_extent, p.m - row), n = std::min(tile_extent, p.n - column);
  Product<float, float> step{p.op_a, p.op_b, m, n, 0, p.alpha, {}, {}, p.beta, {}, 1};
  if constexpr (std::is_same_v<C, float>) {
    step.c = part(p.c, row, column);
  } else {
    step.c = {scratch_tile(2), n, 0};
    step.beta = 0;
  }
  for (std::size_t l = 0; l < p.k; l += tile_extent) {
    step.k = std::min(tile_extent, p.k - l);
    step.a = p.op_a == Op::none ? widen(exec, m, step.k, part(p.a, row, l), scratch_tile(0))
                                : widen(exec, step.k, m, part(p.a, l, row), scratch_tile(0));
    step.b = p.op_b == Op::none ? widen(exec, step.k, n, part(p.b, l, column), scratch_tile(1))
                                : widen(exec, n, step.k, part(p.b, column, l), scratch_tile(1));
    blas_gemm(exec, step);
    step.beta = 1;
  }
  if constexpr (!std::is_same_v<C, float>) narrow(exec, m, n, step.c.data, p.beta, part(p.c, row, column));
}

template <class A, class C>
void emulated_gemm(const Exec& exec, const Product<A, C>& product) {
  Product<A, C> one = product;
  for (std::size_t i = 0; i < product.count; ++i) {
    for (std::size_t row = 0; row < one.m; row += tile_extent) {
      for (std::size_t column = 0; column < one.n; column += tile_extent)
        emulated_tile(exec, one, row, column);
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
