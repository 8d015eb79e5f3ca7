// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/attention_fused.hpp"

#include <type_traits>

#include "core/math.hpp"
#include "layers/head_tiles.hpp"

namespace shardmark {
namespace {

using namespace fused;

template <class T>
constexpr bool is_wide = std::is_same_v<T, Wide<T>>;

/// out and log_sums of one tile of query rows.
template <class T>
struct Forward {
  using W = Wide<T>;
  struct Tiles {
    TeamTile<T> q, kv, p;
    TeamTile<W> s, o, rows;  ///< rows: largest score, sum of exponentials
    std::uintptr_t end;

    KOKKOS_INLINE_FUNCTION Tiles(Dealer dealer, int side, int padded)
        : q(dealer.tile<T>(side, padded)),
          kv(dealer.tile<T>(side, padded)),
          p(dealer.tile<T>(is_wide<T> ? 0 : side, side)),
          s(dealer.tile<W>(side, side)),
          o(dealer.tile<W>(side, padded)),
          rows(dealer.tile<W>(2, side)),
          end(dealer.next) {
      if constexpr (is_wide<T>) p = s;
    }
  };

  Launch<T> launch;
  std::size_t bytes;
  const T* qkv;
  T* out;
  W* log_sums;

  KOKKOS_INLINE_FUNCTION void operator()(const RowMember& member) const {
    const int side = launch.side, padded = launch.padded;
    const int heads = static_cast<int>(launch.shape.samples * launch.shape.heads);
    const int head = member.league_rank() % heads;
    const int first = (launch.tiles - 1 - member.league_rank() / heads) * side;  // the longest first
    const Tiles at = tiles_of(member, *this);
    load(member, launch, rows_of(launch, qkv, 3, 0, head), first, at.q);
    clear(member, side, padded, at.o);
    team_rows(member, side, [&](int i) {
      Kokkos::single(Kokkos::PerThread(member), [&]() {
        at.rows[0][i] = W(-1e30);
        at.rows[1][i] = 0;
      });
    });
    for (int key = 0; key <= first; key += side) {
      load(member, launch, rows_of(launch, qkv, 3, 1, head), key, at.kv);
      member.team_barrier();
      team_product<false, true>(member, side, side, padded, at.q, at.kv, at.s, false);
      member.team_barrier();
      load(member, launch, rows_of(launch, qkv, 3, 2, head), key, at.kv);
      team_rows(member, side, [&](int i) { add_to_softmax(member, at, i, first + i + 1 - key); });
      member.team_barrier();
      team_product<false, false>(member, side, padded, side, at.p, at.kv, at.o, true);
      member.team_barrier();
    }
    store(member, launch, at.o, first, rows_of(launch, out, 1, 0, head),
          [&](int i) { return 1 / at.rows[1][i]; });
    team_rows(member, side, [&](int i) {
      const std::size_t token = first + i;
      if (token >= launch.shape.tokens) return;
      Kokkos::single(Kokkos::PerThread(member), [&]() {
        log_sums[head * launch.shape.tokens + token] = at.rows[0][i] + math::log(at.rows[1][i]);
      });
    });
  }

  /// Row i of s, of which `seen` columns count, becomes exponentials in p.
  KOKKOS_INLINE_FUNCTION void add_to_softmax(const RowMember& member, const Tiles& at, int i,
                                             int seen) const {
    const W before = at.rows[0][i];
    const W* x = at.s[i];
    T* p = at.p[i];
    W here = 0, sum = 0;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(member, launch.side),
        [&](int j, W& part) {
          const W score = x[j] * launch.scale;
          if (j < seen && score > part) part = score;
        },
        Kokkos::Max<W>(here));
    const W largest = here > before ? here : before;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(member, launch.side),
        [&](int j, W& part) {
          const W e = j < seen ? math::exp(x[j] * launch.scale - largest) : W(0);
          p[j] = e;
          part += e;
        },
        sum);
    const W factor = math::exp(before - largest);
    lanes_for(member, launch.padded, [&](int j) { at.o[i][j] *= factor; });
    Kokkos::single(Kokkos::PerThread(member), [&]() {
      at.rows[0][i] = largest;
      at.rows[1][i] = at.rows[1][i] * factor + sum;
    });
  }
};

/// The tiles of both backward kernels, and what they do with the scores. `gradients` are as many as the
/// kernel adds up.
template <class T, int gradients>
struct BackwardTiles {
  using W = Wide<T>;
  TeamTile<T> q, k, v, d, p, ds;  ///< d: gradient of out
  TeamTile<W> s, dp, sums[gradients];
  std::uintptr_t end;

  KOKKOS_INLINE_FUNCTION BackwardTiles(Dealer dealer, int side, int padded)
      : q(dealer.tile<T>(side, padded)),
        k(dealer.tile<T>(side, padded)),
        v(dealer.tile<T>(side, padded)),
        d(dealer.tile<T>(side, padded)),
        p(dealer.tile<T>(is_wide<T> ? 0 : side, side)),
        ds(p),
        s(dealer.tile<W>(side, side)),
        dp(dealer.tile<W>(side, side)) {
    for (TeamTile<W>& sum : sums) sum = dealer.tile<W>(side, padded);
    end = dealer.next;
    if constexpr (is_wide<T>) {
      p = s;
      ds = dp;
    }
  }
};

template <class T, int gradients>
struct Backward {
  using W = Wide<T>;
  using Tiles = BackwardTiles<T, gradients>;
  Launch<T> launch;
  std::size_t bytes;
  const T *qkv, *out, *dout;
  const W* log_sums;
  W* dots;  ///< (B H T): sums over a row of dout x out
  T* dqkv;

  KOKKOS_INLINE_FUNCTION HeadRows<const T> input(int block, int head) const {
    return rows_of(launch, qkv, 3, block, head);
  }
  KOKKOS_INLINE_FUNCTION HeadRows<T> gradient(int block, int head) const {
    return rows_of(launch, dqkv, 3, block, head);
  }
  /// Scores of rows from token `row` against keys from token `key`, and their upstream gradients dp.
  KOKKOS_INLINE_FUNCTION void products(const RowMember& member, const Tiles& at) const {
    team_product<false, true>(member, launch.side, launch.side, launch.padded, at.q, at.k, at.s, false);
    team_product<false, true>(member, launch.side, launch.side, launch.padded, at.d, at.v, at.dp, false);
  }
  /// Scores become probabilities, in s and, rounded, in p.
  KOKKOS_INLINE_FUNCTION void probabilities(const RowMember& member, const Tiles& at, int head, int row,
                                            int key) const {
    team_rows(member, launch.side, [&](int i) {
      const std::size_t token = row + i;
      const W log_sum = token < launch.shape.tokens ? log_sums[head * launch.shape.tokens + token] : W(0);
      W* x = at.s[i];
      T* p = at.p[i];
      lanes_for(member, launch.side, [&](int j) {
        x[j] = key + j <= row + i ? math::exp(x[j] * launch.scale - log_sum) : W(0);
        p[j] = x[j];
      });
    });
  }
  /// Probabilities become the gradients of scores.
  KOKKOS_INLINE_FUNCTION void score_gradients(const RowMember& member, const Tiles& at, int head,
                                              int row) const {
    team_rows(member, launch.side, [&](int i) {
      const std::size_t token = row + i;
      const W dot = token < launch.shape.tokens ? dots[head * launch.shape.tokens + token] : W(0);
      const W *p = at.s[i], *dp = at.dp[i];
      T* ds = at.ds[i];
      lanes_for(member, launch.side, [&](int j) { ds[j] = p[j] * (dp[j] - dot); });
    });
  }
};

/// dots and the gradient of one tile of query rows.
template <class T>
struct QueryGradient : Backward<T, 1> {
  using W = Wide<T>;

  KOKKOS_INLINE_FUNCTION void operator()(const RowMember& member) const {
    const auto& launch = this->launch;
    const int side = launch.side, heads = static_cast<int>(launch.shape.samples * launch.shape.heads);
    const int head = member.league_rank() % heads;
    const int first = (launch.tiles - 1 - member.league_rank() / heads) * side;
    const auto at = tiles_of(member, *this);
    load(member, launch, this->input(0, head), first, at.q);
    load(member, launch, rows_of(launch, this->dout, 1, 0, head), first, at.d);
    clear(member, side, launch.padded, at.sums[0]);
    write_dots(member, head, first);
    for (int key = 0; key <= first; key += side) {
      load(member, launch, this->input(1, head), key, at.k);
      load(member, launch, this->input(2, head), key, at.v);
      member.team_barrier();
      this->products(member, at);
      member.team_barrier();
      this->probabilities(member, at, head, first, key);
      this->score_gradients(member, at, head, first);
      member.team_barrier();
      team_product<false, false>(member, side, launch.padded, side, at.ds, at.k, at.sums[0], true);
      member.team_barrier();
    }
    store(member, launch, at.sums[0], first, this->gradient(0, head), [&](int) { return launch.scale; });
  }

  KOKKOS_INLINE_FUNCTION void write_dots(const RowMember& member, int head, int first) const {
    const auto& launch = this->launch;
    const auto d = rows_of(launch, this->dout, 1, 0, head), o = rows_of(launch, this->out, 1, 0, head);
    team_rows(member, launch.side, [&](int i) {
      const std::size_t token = first + i;
      if (token >= launch.shape.tokens) return;
      W dot = 0;
      Kokkos::parallel_reduce(
          Kokkos::ThreadVectorRange(member, launch.head_width),
          [&](int j, W& part) { part += W(d.data[token * d.row + j]) * W(o.data[token * o.row + j]); }, dot);
      Kokkos::single(Kokkos::PerThread(member),
                     [&]() { this->dots[head * launch.shape.tokens + token] = dot; });
    });
  }
};

/// The gradients of one tile of keys and values; dots are there.
template <class T>
struct KeyGradient : Backward<T, 2> {
  KOKKOS_INLINE_FUNCTION void operator()(const RowMember& member) const {
    const auto& launch = this->launch;
    const int side = launch.side, heads = static_cast<int>(launch.shape.samples * launch.shape.heads);
    const int head = member.league_rank() % heads, key = member.league_rank() / heads * side;
    const auto at = tiles_of(member, *this);
    load(member, launch, this->input(1, head), key, at.k);
    load(member, launch, this->input(2, head), key, at.v);
    for (const auto& sum : at.sums) clear(member, side, launch.padded, sum);
    for (int row = key; row < launch.tiles * side; row += side) {
      load(member, launch, this->input(0, head), row, at.q);
      load(member, launch, rows_of(launch, this->dout, 1, 0, head), row, at.d);
      member.team_barrier();
      this->products(member, at);
      member.team_barrier();
      this->probabilities(member, at, head, row, key);
      member.team_barrier();
      team_product<true, false>(member, side, launch.padded, side, at.p, at.d, at.sums[1], true);
      member.team_barrier();
      this->score_gradients(member, at, head, row);
      member.team_barrier();
      team_product<true, false>(member, side, launch.padded, side, at.ds, at.q, at.sums[0], true);
      member.team_barrier();
    }
    store(member, launch, at.sums[0], key, this->gradient(1, head), [&](int) { return launch.scale; });
    store(member, launch, at.sums[1], key, this->gradient(2, head), [&](int) { return Wide<T>(1); });
  }
};

template <class Tiles>
std::size_t bytes_of(int side, int padded) {
  return Tiles(Dealer{0}, side, padded).end;
}

/// The largest tiles that fit; none where side stays 0.
template <class T>
Launch<T> make_launch(const AttentionShape& shape) {
  Launch<T> launch(shape);
  for (const int side : {32, 16, 8}) {
    const bool possible = sizeof(T) > 2 || side >= 16;
    if (launch.side == 0 && possible && bytes_of<BackwardTiles<T, 2>>(side, launch.padded) <= most_scratch)
      launch.side = side;
  }
  if (launch.side > 0) launch.tiles = (static_cast<int>(shape.tokens) + launch.side - 1) / launch.side;
  return launch;
}

template <class Kernel>
void run(const Exec& exec, const char* label, Kernel kernel) {
  kernel.bytes = bytes_of<typename Kernel::Tiles>(kernel.launch.side, kernel.launch.padded);
  RowPolicy policy(exec, kernel.launch.teams(), exec_is_host ? 1 : kernel.launch.side, tile_lanes);
  policy.set_scratch_size(scratch_level, Kokkos::PerTeam(kernel.bytes + scratch_alignment));
  Kokkos::parallel_for(label, policy, kernel);
}

}  // namespace

template <class T>
bool attention_fuses(const AttentionShape& shape) {
  return make_launch<T>(shape).side > 0;
}

template <class T>
void fused_attention_forward(const Exec& exec, const AttentionShape& shape, const Matrix<const T>& qkv,
                             const Matrix<T>& out, const Vector<Wide<T>>& log_sums) {
  if (shape.samples == 0) return;
  run(exec, "shardmark::attention_fused::forward",
      Forward<T>{make_launch<T>(shape), 0, qkv.data(), out.data(), log_sums.data()});
}

template <class T>
void fused_attention_backward(const Exec& exec, const AttentionShape& shape, const Matrix<const T>& dout,
                              const Matrix<const T>& qkv, const Matrix<const T>& out,
                              const Vector<const Wide<T>>& log_sums, const Matrix<T>& dqkv,
                              const Vector<Wide<T>>& scratch) {
  if (shape.samples == 0) return;
  const Launch<T> launch = make_launch<T>(shape);
  run(exec, "shardmark::attention_fused::query_gradient",
      QueryGradient<T>{
          {launch, 0, qkv.data(), out.data(), dout.data(), log_sums.data(), scratch.data(), dqkv.data()}});
  run(exec, "shardmark::attention_fused::key_gradient",
      KeyGradient<T>{
          {launch, 0, qkv.data(), out.data(), dout.data(), log_sums.data(), scratch.data(), dqkv.data()}});
}

#define SHARDMARK_INSTANTIATE(T)                                                                       \
  template bool attention_fuses<T>(const AttentionShape&);                                             \
  template void fused_attention_forward<T>(const Exec&, const AttentionShape&, const Matrix<const T>&, \
                                           const Matrix<T>&, const Vector<Wide<T>>&);                  \
  template void fused_attention_backward<T>(                                                           \
      const Exec&, const AttentionShape&, const Matrix<const T>&, const Matrix<const T>&,              \
      const Matrix<const T>&, const Vector<const Wide<T>>&, const Matrix<T>&, const Vector<Wide<T>>&);
SHARDMARK_FOR_SCALARS(SHARDMARK_INSTANTIATE)

}  // namespace shardmark
