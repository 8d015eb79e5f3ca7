// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "core/kernels.hpp"
#include "core/precision.hpp"
#if defined(__NVCC__)
#include <mma.h>
#endif

namespace shardmark {

/// Lanes of a team's threads ([Note: Team tiles]).
inline constexpr int tile_lanes = exec_is_host ? 1 : 4;

/// [Note: Team tiles] Matrices in scratch memory that a team works on together: a thread has rows, its lanes
/// columns. Rows and columns are multiples of 8, of 16 where T has 16 bits. Rows lie 16 bytes further apart
/// than they are long, so that neighbouring ones begin in different banks of a device's shared memory.
template <class T>
struct TeamTile {
  T* data;
  int row;  ///< elements from one row to the next

  KOKKOS_INLINE_FUNCTION T* operator[](int i) const { return data + i * row; }
};

/// Four neighbours, which devices read at once.
template <class T>
struct alignas(sizeof(T) < 4 ? 8 : 16) Quad {
  T x[4];
};
template <class T>
KOKKOS_INLINE_FUNCTION Quad<T> quad_at(const T* data) {
  return *reinterpret_cast<const Quad<T>*>(data);
}

/// f(row) on the thread that has the row.
template <class Function>
KOKKOS_INLINE_FUNCTION void team_rows(const RowMember& member, int rows, const Function& f) {
  Kokkos::parallel_for(Kokkos::TeamThreadRange(member, rows), f);
}
/// f(i), i in [0, n), on the lanes of a thread.
template <class Function>
KOKKOS_INLINE_FUNCTION void lanes_for(const RowMember& member, int n, const Function& f) {
  Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, n), f);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
inline constexpr bool has_tensor_cores = true;

/// team_product() on tensor cores, a warp for each 16 x 16 elements of c.
template <bool TransposeA, bool TransposeB, class T>
KOKKOS_INLINE_FUNCTION void tensor_core_product(const RowMember& member, int m, int n, int k,
                                                const TeamTile<T>& a, const TeamTile<T>& b,
                                                const TeamTile<float>& c, bool add) {
  namespace wmma = nvcuda::wmma;
  using Element = std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat16, __half>;
  using LayoutA = std::conditional_t<TransposeA, wmma::col_major, wmma::row_major>;
  using LayoutB = std::conditional_t<TransposeB, wmma::col_major, wmma::row_major>;
  const auto* a_data = reinterpret_cast<const Element*>(a.data);
  const auto* b_data = reinterpret_cast<const Element*>(b.data);
  const int warp = member.team_rank() * tile_lanes / 32, warps = member.team_size() * tile_lanes / 32;
  for (int block = warp; block < m / 16 * (n / 16); block += warps) {
    const int i = block / (n / 16) * 16, j = block % (n / 16) * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    if (add)
      wmma::load_matrix_sync(sum, c[i] + j, c.row, wmma::mem_row_major);
    else
      wmma::fill_fragment(sum, 0.0f);
    for (int l = 0; l < k; l += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, Element, LayoutA> x;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, Element, LayoutB> y;
      wmma::load_matrix_sync(x, a_data + (TransposeA ? l * a.row + i : i * a.row + l), a.row);
      wmma::load_matrix_sync(y, b_data + (TransposeB ? j * b.row + l : l * b.row + j), b.row);
      wmma::mma_sync(sum, x, y, sum);
    }
    wmma::store_matrix_sync(c[i] + j, sum, c.row, wmma::mem_row_major);
  }
}
#else
inline constexpr bool has_tensor_cores = false;

template <bool TransposeA, bool TransposeB, class T>
KOKKOS_INLINE_FUNCTION void tensor_core_product(const RowMember&, int, int, int, const TeamTile<T>&,
                                                const TeamTile<T>&, const TeamTile<float>&, bool) {}
#endif

/// c (m, n) = op(A) op(B), or that added to it, summed over k in Wide<T>. Barriers before and after are the
/// caller's. Not both are transposed.
template <bool TransposeA, bool TransposeB, class T>
KOKKOS_INLINE_FUNCTION void team_product(const RowMember& member, int m, int n, int k, const TeamTile<T>& a,
                                         const TeamTile<T>& b, const TeamTile<Wide<T>>& c, bool add) {
  using W = Wide<T>;
  if constexpr (has_tensor_cores && sizeof(T) == 2) {
    tensor_core_product<TransposeA, TransposeB>(member, m, n, k, a, b, c, add);
  } else if constexpr (TransposeB) {
    team_rows(member, m, [&](int i) {
      lanes_for(member, n / 4, [&](int j) {  // columns j + n/4 {0, 1, 2, 3}
        W sums[4] = {};
        for (int l = 0; l < k; l += 4) {
          const Quad<T> x = quad_at(a[i] + l);
          for (int part = 0; part < 4; ++part) {
            const Quad<T> y = quad_at(b[j + part * (n / 4)] + l);
            for (int u = 0; u < 4; ++u) sums[part] += W(x.x[u]) * W(y.x[u]);
          }
        }
        for (int part = 0; part < 4; ++part) {
          W& result = c[i][j + part * (n / 4)];
          result = add ? result + sums[part] : sums[part];
        }
      });
    });
  } else {
    team_rows(member, m, [&](int i) {
      lanes_for(member, n / 4, [&](int j) {  // columns 4 j + {0, 1, 2, 3}
        W sums[4] = {};
        for (int l = 0; l < k; ++l) {
          const W x = TransposeA ? a[l][i] : a[i][l];
          const Quad<T> y = quad_at(b[l] + 4 * j);
          for (int u = 0; u < 4; ++u) sums[u] += x * W(y.x[u]);
        }
        for (int u = 0; u < 4; ++u) {
          W& result = c[i][4 * j + u];
          result = add ? result + sums[u] : sums[u];
        }
      });
    });
  }
}

}  // namespace shardmark
