// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/attention.hpp"

#include <algorithm>
#include <cmath>

#include "core/kernels.hpp"
#include "core/math.hpp"
#include "layers/gemm.hpp"

namespace shardmark {
namespace {

constexpr std::size_t tile_rows = exec_is_host ? 64 : 256;

/// Heads whose tiles are computed at once: one on hosts, where it then stays in cache, all on devices.
constexpr std::size_t heads_at_once(std::size_t heads) {
  return exec_is_host ? 1 : heads;
}

/// One tile: `rows` query rows from `first` against `keys` keys, for `heads` heads of one sample.
struct Tile {
  std::size_t first, rows, keys, heads;

  std::size_t size() const { return heads * rows * keys; }
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

}  // namespace

std::size_t attention_scratch_size(const AttentionShape& shape) {
  return 2 * heads_at_once(shape.heads) * std::min(tile_rows, shape.tokens) * shape.tokens;
}

/// Scores become probabilities, zero after the row's own token. Row r of head h has its log_sums at
/// first + h tokens + r.
template <class T>
void softmax_tile(const Exec& exec, const Tile& tile, std::size_t tokens, T* scores, T* log_sums) {
  Kokkos::parallel_for(
      "shardmark::attention::softmax", row_policy(exec, tile.heads * tile.rows),
      KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank(), r = row % tile.rows, seen = tile.first + r + 1;
        T* x = scores + row * tile.keys;
        const T largest = row_max(member, seen, x[0], [&](std::size_t i) { return x[i]; });
        row_for(member, seen, [&](std::size_t i) { x[i] = math::exp(x[i] - largest); });
        const T sum = row_sum(member, seen, [&](std::size_t i) { return x[i]; });
        const T factor = 1 / sum;
        row_for(member, seen, [&](std::size_t i) { x[i] *= factor; });
        row_for(member, tile.keys - seen, [&](std::size_t i) { x[seen + i] = 0; });
        if (member.team_rank() == 0)
          log_sums[tile.first + row / tile.rows * tokens + r] = largest + math::log(sum);
      });
}

/// Scores become probabilities, and their gradients those of the scores: ds = p (dp - sum over keys of p dp).
template <class T>
void softmax_tile_backward(const Exec& exec, const Tile& tile, std::size_t tokens, T* scores, T* gradients,
                           const T* log_sums) {
  Kokkos::parallel_for(
      "shardmark::attention::softmax_backward", row_policy(exec, tile.heads * tile.rows),
      KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank(), r = row % tile.rows, seen = tile.first + r + 1;
        const T log_sum = log_sums[tile.first + row / tile.rows * tokens + r];
        T *p = scores + row * tile.keys, *dp = gradients + row * tile.keys;
        row_for(member, seen, [&](std::size_t i) { p[i] = math::exp(p[i] - log_sum); });
        const T mean = row_sum(member, seen, [&](std::size_t i) { return p[i] * dp[i]; });
        row_for(member, seen, [&](std::size_t i) { dp[i] = p[i] * (dp[i] - mean); });
        row_for(member, tile.keys - seen, [&](std::size_t i) { p[seen + i] = dp[seen + i] = 0; });
      });
}

template <class T>
void attention_forward(const Exec& exec, const AttentionShape& shape, const Matrix<const T>& qkv,
                       const Matrix<T>& out, const Vector<T>& log_sums, const Vector<T>& scratch) {
  const std::size_t head_width = shape.width / shape.heads;
  for_each_tile(shape, [&](std::size_t sample, std::size_t head, const Tile& tile) {
    const auto q = heads_of(qkv, shape, sample, head, tile.first, 0);
    const auto k = heads_of(qkv, shape, sample, head, 0, 1), v = heads_of(qkv, shape, sample, head, 0, 2);
    T* row_log_sums = log_sums.data() + (sample * shape.heads + head) * shape.tokens;
    const auto scores = tile.scores<T>(scratch.data());
    const auto probabilities = tile.scores<const T>(scratch.data());
    gemm_batched<T>(exec, Op::none, Op::transpose, tile.rows, tile.keys, head_width, score_scale<T>(shape), q,
                    k, 0, scores, tile.heads);
    softmax_tile(exec, tile, shape.tokens, scores.data, row_log_sums);
    gemm_batched<T>(exec, Op::none, Op::none, tile.rows, head_width, tile.keys, 1, probabilities, v, 0,
                    heads_of(out, shape, sample, head, tile.first), tile.heads);
  });
}

template <class T>
void attention_backward(const Exec& exec, const AttentionShape& shape, const Matrix<const T>& dout,
                        const Matrix<const T>& qkv, const Vector<const T>& log_sums, const Matrix<T>& dqkv,
                        const Vector<T>& scratch) {
  const std::size_t head_width = shape.width / shape.heads;
  const T scale = score_scale<T>(shape);
  for_each_tile(shape, [&](std::size_t sample, std::size_t head, const Tile& tile) {
    const auto q = heads_of(qkv, shape, sample, head, tile.first, 0);
    const auto k = heads_of(qkv, shape, sample, head, 0, 1), v = heads_of(qkv, shape, sample, head, 0, 2);
    const auto dq = heads_of(dqkv, shape, sample, head, tile.first, 0);
    const auto dk = heads_of(dqkv, shape, sample, head, 0, 1), dv = heads_of(dqkv, shape, sample, head, 0, 2);
    const auto d = heads_of(dout, shape, sample, head, tile.first);
    const T* row_log_sums = log_sums.data() + (sample * shape.heads + head) * shape.tokens;
    T *scores = scratch.data(), *gradients = scores + tile.size();
    const auto p = tile.scores<const T>(scores), ds = tile.scores<const T>(gradients);
    const std::size_t rows = tile.rows, keys = tile.keys;

    gemm_batched<T>(exec, Op::none, Op::transpose, rows, keys, head_width, scale, q, k, 0,
                    tile.scores<T>(scores), tile.heads);
    gemm_batched<T>(exec, Op::none, Op::transpose, rows, keys, head_width, 1, d, v, 0,
                    tile.scores<T>(gradients), tile.heads);
    softmax_tile_backward(exec, tile, shape.tokens, scores, gradients, row_log_sums);
    // The first tile of a head has all keys, so it writes dk and dv; the others add.
    const T beta = keys == shape.tokens ? 0 : 1;
    gemm_batched<T>(exec, Op::none, Op::none, rows, head_width, keys, scale, ds, k, 0, dq, tile.heads);
    gemm_batched<T>(exec, Op::transpose, Op::none, keys, head_width, rows, scale, ds, q, beta, dk,
                    tile.heads);
    gemm_batched<T>(exec, Op::transpose, Op::none, keys, head_width, rows, 1, p, d, beta, dv, tile.heads);
  });
}

#define SHARDMARK_INSTANTIATE(T)                                                                     \
  template void attention_forward(const Exec&, const AttentionShape&, const Matrix<const T>&,        \
                                  const Matrix<T>&, const Vector<T>&, const Vector<T>&);             \
  template void attention_backward(const Exec&, const AttentionShape&, const Matrix<const T>&,       \
                                   const Matrix<const T>&, const Vector<const T>&, const Matrix<T>&, \
                                   const Vector<T>&);
SHARDMARK_INSTANTIATE(float)
SHARDMARK_INSTANTIATE(double)

}  // namespace shardmark
