// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/attention.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/kernels.hpp"
#include "core/math.hpp"
#include "layers/attention_fused.hpp"
#include "layers/attention_tiles.hpp"
#include "layers/gemm.hpp"

namespace shardmark {
namespace {

constexpr std::size_t tile_rows = exec_is_host ? 64 : 256;

template <class T>
bool fuses(const AttentionShape& shape) {
  return !exec_is_host && attention_fuses<T>(shape);
}

/// Heads whose tiles are computed at once: one on hosts, where it then stays in cache, all on devices.
constexpr std::size_t heads_at_once(std::size_t heads) {
  return exec_is_host ? 1 : heads;
}

/// One tile: `rows` query rows from `first` against `keys` keys, for `heads` heads of one sample.
struct Tile {
  std::size_t first, rows, keys, heads;

  template <class T>
  Strided<T> scores(T* data) const {
    return {data, keys, rows * keys};
  }
};

/// Calls f(sample, head, Tile) for all tiles, for each head from the last rows to the first.
template <class Function>
void for_each_tile(const AttentionShape& shape, const Function& f) {
  const std::size_t group = heads_at_once(shape.heads);
  const std::size_t tiles = (shape.tokens + tile_rows - 1) / tile_rows;
  for (std::size_t sample = 0; sample < shape.samples; ++sample) {
    for (std::size_t head = 0; head < shape.heads; head += group) {
      for (std::size_t tile = tiles; tile-- > 0;) {
        const std::size_t first = tile * tile_rows, last = std::min(shape.tokens, first + tile_rows);
        f(sample, head, Tile{first, last - first, last, group});
      }
    }
  }
}

/// The part of `matrix` that belongs to `head` and the heads after it, from row `token` of `sample`; `block`
/// is 0, 1, 2 for Q, K, V.
template <class T>
Strided<T> heads_of(const Matrix<T>& matrix, const AttentionShape& shape, std::size_t sample,
                    std::size_t head, std::size_t token, std::size_t block = 0) {
  const std::size_t head_width = shape.width / shape.heads, row = matrix.extent(1);
  return {matrix.data() + (sample * shape.tokens + token) * row + block * shape.width + head * head_width,
          row, head_width};
}

template <class T>
T score_scale(const AttentionShape& shape) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(shape.width / shape.heads)));
}

/// Whether products take the scores as they are, or copies of them in a 16-bit T.
template <class T>
constexpr bool is_wide = std::is_same_v<T, Wide<T>>;

/// Elements of the largest tile.
std::size_t tile_size(const AttentionShape& shape) {
  return heads_at_once(shape.heads) * std::min(tile_rows, shape.tokens) * shape.tokens;
}

/// Elements of dK, or of dV, for the heads of a tile.
std::size_t key_gradient_size(const AttentionShape& shape) {
  return heads_at_once(shape.heads) * shape.tokens * (shape.width / shape.heads);
}

/// What lies where in the scratch. Of a wide T the last four are not there: p and ds are in the place of the
/// scores and their gradients, and dK and dV are added up where they belong.
template <class T>
struct AttentionScratch {
  Wide<T>*scores, *gradients;  // (heads, rows, keys)
  T *p, *ds;                   // likewise
  Wide<T>*dk, *dv;             // (heads, T, C / H)

  AttentionScratch(const AttentionShape& shape, Wide<T>* data)
      : scores(data), gradients(data + tile_size(shape)) {
    if constexpr (is_wide<T>) {
      p = scores;
      ds = gradients;
      dk = dv = nullptr;
    } else {
      static_assert(2 * sizeof(T) == sizeof(Wide<T>));
      Wide<T>* rest = gradients + tile_size(shape);
      p = reinterpret_cast<T*>(rest);
      ds = p + tile_size(shape);
      dk = rest + tile_size(shape);
      dv = dk + key_gradient_size(shape);
    }
  }
};

/// Types for which there is the way of [Note: Attention in tiles].
template <class T>
constexpr bool may_tile = exec_is_host && !std::is_same_v<T, double>;

template <class T>
bool tiles(const AttentionShape& shape) {
  return may_tile<T> && attention_has_tiles(shape) && !gemm_is_native<T>();
}

}  // namespace

std::size_t attention_tile_rows(const AttentionShape& shape) {
  return std::min(tile_rows, shape.tokens);
}

template <class T>
std::size_t attention_scratch_size(const AttentionShape& shape) {
  if (fuses<T>(shape)) return fused_attention_scratch_size(shape);
  const std::size_t products =
      is_wide<T> ? 2 * tile_size(shape) : 3 * tile_size(shape) + 2 * key_gradient_size(shape);
  if constexpr (may_tile<T>)
    if (attention_has_tiles(shape)) {
      const std::size_t in_tiles = tiled_attention_scratch_size<T>(shape);
      return is_wide<T> ? in_tiles : std::max(in_tiles, products);  // which way is taken may not be known yet
    }
  return products;
}

/// `seen` of a row's `keys` scores, and as many more as fill a host's vectors: what does not is slow.
KOKKOS_INLINE_FUNCTION std::size_t whole_vectors(std::size_t seen, std::size_t keys) {
  const std::size_t whole = exec_is_host ? (seen + 15) / 16 * 16 : seen;
  return whole < keys ? whole : keys;
}

/// Scores become probabilities p, zero after the row's own token. Row r of head h has its log_sums at
/// first + h tokens + r.
template <class T>
void softmax_tile(const Exec& exec, const Tile& tile, std::size_t tokens, Wide<T>* scores, T* probabilities,
                  Wide<T>* log_sums) {
  using W = Wide<T>;
  Kokkos::parallel_for(
      "shardmark::attention::softmax", row_policy(exec, tile.heads * tile.rows),
      KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank(), r = row % tile.rows, seen = tile.first + r + 1;
        const std::size_t width = whole_vectors(seen, tile.keys);
        W* x = scores + row * tile.keys;
        T* p = probabilities + row * tile.keys;
        const W some = x[0];
        const W largest = row_max(member, width, some, [&](std::size_t i) { return i < seen ? x[i] : some; });
        const W sum = row_sum(member, width, [&](std::size_t i) {
          x[i] = i < seen ? math::exp(x[i] - largest) : W(0);
          return x[i];
        });
        const W factor = 1 / sum;
        row_for(member, width, [&](std::size_t i) { p[i] = x[i] * factor; });
        row_for(member, tile.keys - width, [&](std::size_t i) { p[width + i] = 0; });
        if (member.team_rank() == 0)
          log_sums[tile.first + row / tile.rows * tokens + r] = largest + math::log(sum);
      });
}

/// Scores become probabilities p, and their gradients those of the scores: ds = p (dp - sum over keys of p
/// dp).
template <class T>
void softmax_tile_backward(const Exec& exec, const Tile& tile, std::size_t tokens,
                           const AttentionScratch<T>& scratch, const Wide<T>* log_sums) {
  using W = Wide<T>;
  Kokkos::parallel_for(
      "shardmark::attention::softmax_backward", row_policy(exec, tile.heads * tile.rows),
      KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank(), r = row % tile.rows, seen = tile.first + r + 1;
        const std::size_t width = whole_vectors(seen, tile.keys);
        const W log_sum = log_sums[tile.first + row / tile.rows * tokens + r];
        W *x = scratch.scores + row * tile.keys, *dp = scratch.gradients + row * tile.keys;
        T *p = scratch.p + row * tile.keys, *ds = scratch.ds + row * tile.keys;
        const W mean = row_sum(member, width, [&](std::size_t i) {
          x[i] = i < seen ? math::exp(x[i] - log_sum) : W(0);
          return i < seen ? x[i] * dp[i] : W(0);
        });
        row_for(member, width, [&](std::size_t i) {
          ds[i] = i < seen ? x[i] * (dp[i] - mean) : W(0);
          p[i] = x[i];
        });
        row_for(member, tile.keys - width, [&](std::size_t i) {
          p[width + i] = 0;
          ds[width + i] = 0;
        });
      });
}

/// Copies (tokens, width) matrices that lie one after the other, rounded.
template <class T>
void store(const Exec& exec, std::size_t heads, std::size_t tokens, std::size_t width, const Wide<T>* from,
           const Strided<T>& to) {
  Kokkos::parallel_for(
      "shardmark::attention::store", row_policy(exec, heads * tokens),
      KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank();
        const Wide<T>* in = from + row * width;
        T* out = to.data + row / tokens * to.batch + row % tokens * to.row;
        row_for(member, width, [&](std::size_t i) { out[i] = in[i]; });
      });
}

template <class T>
void attention_forward(const Exec& exec, const AttentionShape& shape, const Matrix<const T>& qkv,
                       const Matrix<T>& out, const Vector<Wide<T>>& log_sums,
                       const Vector<Wide<T>>& scratch) {
  if (fuses<T>(shape)) return fused_attention_forward<T>(exec, shape, qkv, out, log_sums);
  if constexpr (may_tile<T>)
    if (tiles<T>(shape)) return tiled_attention_forward(shape, qkv, out, log_sums, scratch);
  using W = Wide<T>;
  const std::size_t head_width = shape.width / shape.heads;
  const AttentionScratch<T> at(shape, scratch.data());
  for_each_tile(shape, [&](std::size_t sample, std::size_t head, const Tile& tile) {
    const auto q = heads_of(qkv, shape, sample, head, tile.first, 0);
    const auto k = heads_of(qkv, shape, sample, head, 0, 1), v = heads_of(qkv, shape, sample, head, 0, 2);
    W* row_log_sums = log_sums.data() + (sample * shape.heads + head) * shape.tokens;
    gemm_batched<T, W>(exec, Op::none, Op::transpose, tile.rows, tile.keys, head_width, score_scale<W>(shape),
                       q, k, 0, tile.scores<W>(at.scores), tile.heads);
    softmax_tile(exec, tile, shape.tokens, at.scores, at.p, row_log_sums);
    gemm_batched<T, T>(exec, Op::none, Op::none, tile.rows, head_width, tile.keys, 1,
                       tile.scores<const T>(at.p), v, 0, heads_of(out, shape, sample, head, tile.first),
                       tile.heads);
  });
}

template <class T>
void attention_backward(const Exec& exec, const AttentionShape& shape, const Matrix<const T>& dout,
                        const Matrix<const T>& qkv, const Matrix<const T>& out,
                        const Vector<const Wide<T>>& log_sums, const Matrix<T>& dqkv,
                        const Vector<Wide<T>>& scratch) {
  if (fuses<T>(shape))
    return fused_attention_backward<T>(exec, shape, dout, qkv, out, log_sums, dqkv, scratch);
  if constexpr (may_tile<T>)
    if (tiles<T>(shape)) return tiled_attention_backward(shape, dout, qkv, out, log_sums, dqkv, scratch);
  using W = Wide<T>;
  const std::size_t head_width = shape.width / shape.heads;
  const W scale = score_scale<W>(shape);
  const AttentionScratch<T> at(shape, scratch.data());
  for_each_tile(shape, [&](std::size_t sample, std::size_t head, const Tile& tile) {
    const auto q = heads_of(qkv, shape, sample, head, tile.first, 0);
    const auto k = heads_of(qkv, shape, sample, head, 0, 1), v = heads_of(qkv, shape, sample, head, 0, 2);
    const auto dq = heads_of(dqkv, shape, sample, head, tile.first, 0);
    const auto dk = heads_of(dqkv, shape, sample, head, 0, 1), dv = heads_of(dqkv, shape, sample, head, 0, 2);
    const auto d = heads_of(dout, shape, sample, head, tile.first);
    const W* row_log_sums = log_sums.data() + (sample * shape.heads + head) * shape.tokens;
    const auto p = tile.scores<const T>(at.p), ds = tile.scores<const T>(at.ds);
    const std::size_t rows = tile.rows, keys = tile.keys, head_size = shape.tokens * head_width;

    gemm_batched<T, W>(exec, Op::none, Op::transpose, rows, keys, head_width, scale, q, k, 0,
                       tile.scores<W>(at.scores), tile.heads);
    gemm_batched<T, W>(exec, Op::none, Op::transpose, rows, keys, head_width, 1, d, v, 0,
                       tile.scores<W>(at.gradients), tile.heads);
    softmax_tile_backward(exec, tile, shape.tokens, at, row_log_sums);
    // The first tile of a head has all keys, so it writes dk and dv; the others add.
    const W beta = keys == shape.tokens ? 0 : 1;
    gemm_batched<T, T>(exec, Op::none, Op::none, rows, head_width, keys, scale, ds, k, 0, dq, tile.heads);
    const auto add_to_keys = [&](W factor, const Strided<const T>& left, const Strided<const T>& right,
                                 W* sums, const Strided<T>& result) {
      Strided<W> c{sums, head_width, head_size};
      if constexpr (is_wide<T>) c = result;
      gemm_batched<T, W>(exec, Op::transpose, Op::none, keys, head_width, rows, factor, left, right, beta, c,
                         tile.heads);
      if (!is_wide<T> && tile.first == 0) store<T>(exec, tile.heads, shape.tokens, head_width, sums, result);
    };
    add_to_keys(scale, ds, q, at.dk, dk);
    add_to_keys(1, p, d, at.dv, dv);
  });
}

#define SHARDMARK_INSTANTIATE(T)                                                                        \
  template std::size_t attention_scratch_size<T>(const AttentionShape&);                                \
  template void attention_forward<T>(const Exec&, const AttentionShape&, const Matrix<const T>&,        \
                                     const Matrix<T>&, const Vector<Wide<T>>&, const Vector<Wide<T>>&); \
  template void attention_backward<T>(                                                                  \
      const Exec&, const AttentionShape&, const Matrix<const T>&, const Matrix<const T>&,               \
      const Matrix<const T>&, const Vector<const Wide<T>>&, const Matrix<T>&, const Vector<Wide<T>>&);
SHARDMARK_FOR_SCALARS(SHARDMARK_INSTANTIATE)

}  // namespace shardmark
