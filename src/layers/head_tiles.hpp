// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <type_traits>

#include "layers/attention.hpp"
#include "layers/team_products.hpp"

// What the kernels of [Note: Fused attention] do with their tiles; for attention_fused.cpp only.
namespace shardmark::fused {

inline constexpr int scratch_level = exec_is_host ? 1 : 0;
inline constexpr std::size_t scratch_alignment = 32;
/// Below what Kokkos lets a team have in the shared memory of any CUDA device.
inline constexpr std::size_t most_scratch = 40 * 1024 - 256;

/// Deals out scratch memory, and counts.
struct Dealer {
  char* memory;
  std::size_t bytes = 0;

  template <class X>
  KOKKOS_INLINE_FUNCTION TeamTile<X> tile(int rows, int columns) {
    const int row = columns + static_cast<int>(16 / sizeof(X));
    const TeamTile<X> tile{memory == nullptr ? nullptr : reinterpret_cast<X*>(memory + bytes), row};
    bytes += rows * row * sizeof(X);
    return tile;
  }
};

/// Tokens that a team takes at a time: queries, one a thread, and keys.
struct Sides {
  int queries = 0, keys = 0;
};

/// Sizes of a launch. Heads are `padded` to a multiple of 16 columns, by zeros.
template <class T>
struct Launch {
  AttentionShape shape;
  int heads, tokens, head_width, padded;  ///< heads of all samples
  Sides sides;
  Wide<T> scale;

  explicit Launch(const AttentionShape& s)
      : shape(s),
        heads(static_cast<int>(s.samples * s.heads)),
        tokens(static_cast<int>(s.tokens)),
        head_width(static_cast<int>(s.width / s.heads)),
        padded((head_width + 15) / 16 * 16),
        scale(static_cast<Wide<T>>(1 / std::sqrt(static_cast<double>(head_width)))) {}
};

/// A head's part of a matrix, from its sample's first row on.
template <class T>
struct HeadRows {
  T* data;
  std::size_t row;  ///< elements from one row to the next
};

template <class T>
KOKKOS_INLINE_FUNCTION HeadRows<T> rows_of(const Launch<std::remove_const_t<T>>& launch, T* data, int blocks,
                                           int block, std::size_t head) {
  const std::size_t sample = head / launch.shape.heads, row = blocks * launch.shape.width;
  return {data + sample * launch.shape.tokens * row + block * launch.shape.width +
              head % launch.shape.heads * launch.head_width,
          row};
}

/// `rows` rows from token `first` on to a tile; zeros where there are none.
template <class T>
KOKKOS_INLINE_FUNCTION void load(const RowMember& member, const Launch<T>& launch,
                                 const HeadRows<const T>& from, int first, int rows, const TeamTile<T>& to) {
  const bool whole_quads = launch.head_width % 4 == 0;  // so rows begin at one, too
  team_rows(member, rows, [&](int i) {
    const T* in = from.data + (first + i) * from.row;
    const int columns = first + i < launch.tokens ? launch.head_width : 0;
    lanes_for(member, launch.padded / 4, [&](int j) {
      Quad<T> quad;
      if (whole_quads && 4 * j < columns) {
        quad = quad_at(in + 4 * j);
      } else {
        for (int u = 0; u < 4; ++u) quad.x[u] = 4 * j + u < columns ? in[4 * j + u] : T(0);
      }
      *reinterpret_cast<Quad<T>*>(to[i] + 4 * j) = quad;
    });
  });
}

/// `rows` rows of a tile, multiplied by factor(i), to the rows from token `first` on.
template <class T, class Factor>
KOKKOS_INLINE_FUNCTION void store(const RowMember& member, const Launch<T>& launch,
                                  const TeamTile<Wide<T>>& from, int first, int rows, const HeadRows<T>& to,
                                  const Factor& factor) {
  team_rows(member, rows, [&](int i) {
    if (first + i >= launch.tokens) return;
    const Wide<T> f = factor(i);
    T* out = to.data + (first + i) * to.row;
    lanes_for(member, launch.head_width, [&](int j) { out[j] = from[i][j] * f; });
  });
}

template <class W>
KOKKOS_INLINE_FUNCTION void clear(const RowMember& member, int rows, int columns, const TeamTile<W>& tile) {
  team_rows(member, rows, [&](int i) { lanes_for(member, columns, [&](int j) { tile[i][j] = 0; }); });
}

template <class Kernel>
KOKKOS_INLINE_FUNCTION typename Kernel::Tiles tiles_of(const RowMember& member, const Kernel& kernel) {
  const int level = scratch_level;  // which is taken by reference, as devices can't take a constant
  void* memory = member.team_scratch(level).get_shmem_aligned(kernel.bytes, scratch_alignment);
  return
      typename Kernel::Tiles(Dealer{static_cast<char*>(memory)}, kernel.launch.sides, kernel.launch.padded);
}

}  // namespace shardmark::fused
