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

/// out and log_sums of one tile of queries.
template <class T>
struct Forward {
  using W = Wide<T>;
  struct Tiles {
    TeamTile<T> q, kv, p;
    TeamTile<W> s, o, state;  ///< state: largest score of each query so far, sum of exponentials
    std::size_t bytes;

    KOKKOS_INLINE_FUNCTION Tiles(Dealer dealer, Sides sides, int padded)
        : q(dealer.tile<T>(sides.queries, padded)),
          kv(dealer.tile<T>(sides.keys, padded)),
          p(dealer.tile<T>(is_wide<T> ? 0 : sides.queries, sides.keys)),
          s(dealer.tile<W>(sides.queries, sides.keys)),
          o(dealer.tile<W>(sides.queries, padded)),
          state(dealer.tile<W>(2, sides.queries)),
          bytes(dealer.bytes) {
      if constexpr (is_wide<T>) p = s;
    }
  };

  Launch<T> launch;
  const T* qkv;
  T* out;
  W* log_sums;
  std::size_t bytes = 0;

  /// Tokens of a team.
  static int step(const Sides& sides) { return sides.queries; }

  KOKKOS_INLINE_FUNCTION void operator()(const RowMember& member) const {
    const auto [queries, keys] = launch.sides;
    const int head = member.league_rank() % launch.heads;
    const int tiles = member.league_size() / launch.heads;
    const int first = (tiles - 1 - member.league_rank() / launch.heads) * queries;  // the longest first
    const Tiles at = tiles_of(member, *this);
    load(member, launch, rows_of(launch, qkv, 3, 0, head), first, queries, at.q);
    clear(member, queries, launch.padded, at.o);
    team_rows(member, queries, [&](int i) {
      Kokkos::single(Kokkos::PerThread(member), [&]() {
        at.state[0][i] = W(-1e30);
        at.state[1][i] = 0;
      });
    });
    for (int key = 0; key < first + queries && key < launch.tokens; key += keys) {
      load(member, launch, rows_of(launch, qkv, 3, 1, head), key, keys, at.kv);
      member.team_barrier();
      team_product<false, true>(member, queries, keys, launch.padded, at.q, at.kv, at.s, false);
      member.team_barrier();
      load(member, launch, rows_of(launch, qkv, 3, 2, head), key, keys, at.kv);
      team_rows(member, queries, [&](int i) { add_to_softmax(member, at, i, first + i + 1 - key); });
      member.team_barrier();
      team_product<false, false>(member, queries, launch.padded, keys, at.p, at.kv, at.o, true);
      member.team_barrier();
    }
    store(member, launch, at.o, first, queries, rows_of(launch, out, 1, 0, head),
          [&](int i) { return 1 / at.state[1][i]; });
    team_rows(member, queries, [&](int i) {
      Kokkos::single(Kokkos::PerThread(member), [&]() {
        if (first + i < launch.tokens)
          log_sums[head * launch.shape.tokens + first + i] = at.state[0][i] + math::log(at.state[1][i]);
      });
    });
  }

  /// Row i of s, of which the first `seen` columns count, becomes exponentials in p.
  KOKKOS_INLINE_FUNCTION void add_to_softmax(const RowMember& member, const Tiles& at, int i,
                                             int seen) const {
    const W before = at.state[0][i];
    const W* x = at.s[i];
    T* p = at.p[i];
    W here = 0, sum = 0;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(member, launch.sides.keys),
        [&](int j, W& part) {
          const W score = x[j] * launch.scale;
          if (j < seen && score > part) part = score;
        },
        Kokkos::Max<W>(here));
    const W largest = here > before ? here : before;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(member, launch.sides.keys),
        [&](int j, W& part) {
          const W e = j < seen ? math::exp(x[j] * launch.scale - largest) : W(0);
          p[j] = e;
          part += e;
        },
        sum);
    const W factor = math::exp(before - largest);
    lanes_for(member, launch.padded, [&](int j) { at.o[i][j] *= factor; });
    Kokkos::single(Kokkos::PerThread(member), [&]() {
      at.state[0][i] = largest;
      at.state[1][i] = at.state[1][i] * factor + sum;
    });
  }
};

/// What both backward kernels have in common. One with `OfKeys` adds up gradients of keys and values, else
/// those of queries.
template <class T, bool OfKeys>
struct Backward {
  using W = Wide<T>;
  struct Tiles {
    TeamTile<T> q, k, v, d, p, ds;  ///< d: gradient of out; p and ds share memory where they are copies
    TeamTile<W> s, dp, dq, dk, dv;
    std::size_t bytes;

    KOKKOS_INLINE_FUNCTION Tiles(Dealer dealer, Sides sides, int padded)
        : q(dealer.tile<T>(sides.queries, padded)),
          k(dealer.tile<T>(sides.keys, padded)),
          v(dealer.tile<T>(sides.keys, padded)),
          d(dealer.tile<T>(sides.queries, padded)),
          p(dealer.tile<T>(is_wide<T> ? 0 : sides.queries, sides.keys)),
          ds(p),
          s(dealer.tile<W>(sides.queries, sides.keys)),
          dp(dealer.tile<W>(sides.queries, sides.keys)),
          dq(dealer.tile<W>(OfKeys ? 0 : sides.queries, padded)),
          dk(dealer.tile<W>(OfKeys ? sides.keys : 0, padded)),
          dv(dealer.tile<W>(OfKeys ? sides.keys : 0, padded)),
          bytes(dealer.bytes) {
      if constexpr (is_wide<T>) {
        p = s;
        ds = dp;
      }
    }
  };

  Launch<T> launch;
  const T *qkv, *out, *dout;
  const W* log_sums;
  W* dots;  ///< (B H T): sums over a row of dout x out
  T* dqkv;
  std::size_t bytes = 0;

  static int step(const Sides& sides) { return OfKeys ? sides.keys : sides.queries; }

  KOKKOS_INLINE_FUNCTION HeadRows<const T> input(int block, int head) const {
    return rows_of(launch, qkv, 3, block, head);
  }
  KOKKOS_INLINE_FUNCTION HeadRows<T> gradient(int block, int head) const {
    return rows_of(launch, dqkv, 3, block, head);
  }
  /// Scores, and the gradients of probabilities.
  KOKKOS_INLINE_FUNCTION void products(const RowMember& member, const Tiles& at) const {
    const auto [queries, keys] = launch.sides;
    team_product<false, true>(member, queries, keys, launch.padded, at.q, at.k, at.s, false);
    team_product<false, true>(member, queries, keys, launch.padded, at.d, at.v, at.dp, false);
  }
  /// Scores of queries from token `query` on and keys from `key` on become probabilities, in s and in p.
  KOKKOS_INLINE_FUNCTION void probabilities(const RowMember& member, const Tiles& at, int head, int query,
                                            int key) const {
    team_rows(member, launch.sides.queries, [&](int i) {
      const int token = query + i;
      const W log_sum = token < launch.tokens ? log_sums[head * launch.shape.tokens + token] : W(0);
      W* x = at.s[i];
      T* p = at.p[i];
      lanes_for(member, launch.sides.keys, [&](int j) {
        x[j] = key + j <= token ? math::exp(x[j] * launch.scale - log_sum) : W(0);
        p[j] = x[j];
      });
    });
  }
  /// Gradients of probabilities become those of scores, in ds.
  KOKKOS_INLINE_FUNCTION void score_gradients(const RowMember& member, const Tiles& at, int head,
                                              int query) const {
    team_rows(member, launch.sides.queries, [&](int i) {
      const int token = query + i;
      const W dot = token < launch.tokens ? dots[head * launch.shape.tokens + token] : W(0);
      const W *p = at.s[i], *dp = at.dp[i];
      T* ds = at.ds[i];
      lanes_for(member, launch.sides.keys, [&](int j) { ds[j] = p[j] * (dp[j] - dot); });
    });
  }
};

/// dots and the gradient of one tile of queries.
template <class T>
struct QueryGradient : Backward<T, false> {
  KOKKOS_INLINE_FUNCTION void operator()(const RowMember& member) const {
    const auto& launch = this->launch;
    const auto [queries, keys] = launch.sides;
    const int head = member.league_rank() % launch.heads;
    const int tiles = member.league_size() / launch.heads;
    const int first = (tiles - 1 - member.league_rank() / launch.heads) * queries;
    const auto at = tiles_of(member, *this);
    load(member, launch, this->input(0, head), first, queries, at.q);
    load(member, launch, rows_of(launch, this->dout, 1, 0, head), first, queries, at.d);
    clear(member, queries, launch.padded, at.dq);
    write_dots(member, head, first);
    for (int key = 0; key < first + queries && key < launch.tokens; key += keys) {
      load(member, launch, this->input(1, head), key, keys, at.k);
      load(member, launch, this->input(2, head), key, keys, at.v);
      member.team_barrier();
      this->products(member, at);
      member.team_barrier();
      this->probabilities(member, at, head, first, key);
      this->score_gradients(member, at, head, first);
      member.team_barrier();
      team_product<false, false>(member, queries, launch.padded, keys, at.ds, at.k, at.dq, true);
      member.team_barrier();
    }
    store(member, launch, at.dq, first, queries, this->gradient(0, head), [&](int) { return launch.scale; });
  }

  KOKKOS_INLINE_FUNCTION void write_dots(const RowMember& member, int head, int first) const {
    using W = Wide<T>;
    const auto& launch = this->launch;
    const auto d = rows_of(launch, this->dout, 1, 0, head), o = rows_of(launch, this->out, 1, 0, head);
    team_rows(member, launch.sides.queries, [&](int i) {
      if (first + i >= launch.tokens) return;
      const T *x = d.data + (first + i) * d.row, *y = o.data + (first + i) * o.row;
      W dot = 0;
      Kokkos::parallel_reduce(
          Kokkos::ThreadVectorRange(member, launch.head_width),
          [&](int j, W& part) { part += W(x[j]) * W(y[j]); }, dot);
      Kokkos::single(Kokkos::PerThread(member),
                     [&]() { this->dots[head * launch.shape.tokens + first + i] = dot; });
    });
  }
};

/// The gradients of one tile of keys and values, where dots are there.
template <class T>
struct KeyGradient : Backward<T, true> {
  KOKKOS_INLINE_FUNCTION void operator()(const RowMember& member) const {
    const auto& launch = this->launch;
    const auto [queries, keys] = launch.sides;
    const int head = member.league_rank() % launch.heads;
    const int key = member.league_rank() / launch.heads * keys;
    const auto at = tiles_of(member, *this);
    load(member, launch, this->input(1, head), key, keys, at.k);
    load(member, launch, this->input(2, head), key, keys, at.v);
    clear(member, keys, launch.padded, at.dk);
    clear(member, keys, launch.padded, at.dv);
    for (int query = key / queries * queries; query < launch.tokens; query += queries) {
      load(member, launch, this->input(0, head), query, queries, at.q);
      load(member, launch, rows_of(launch, this->dout, 1, 0, head), query, queries, at.d);
      member.team_barrier();
      this->products(member, at);
      member.team_barrier();
      this->probabilities(member, at, head, query, key);
      member.team_barrier();
      team_product<true, false>(member, keys, launch.padded, queries, at.p, at.d, at.dv, true);
      member.team_barrier();
      this->score_gradients(member, at, head, query);
      member.team_barrier();
      team_product<true, false>(member, keys, launch.padded, queries, at.ds, at.q, at.dk, true);
      member.team_barrier();
    }
    store(member, launch, at.dk, key, keys, this->gradient(1, head), [&](int) { return launch.scale; });
    store(member, launch, at.dv, key, keys, this->gradient(2, head), [&](int) { return Wide<T>(1); });
  }
};

template <class Tiles>
std::size_t bytes_of(Sides sides, int padded) {
  return Tiles(Dealer{nullptr}, sides, padded).bytes;
}

/// The largest that fit in scratch memory; none where no tile does. Tensor cores have 16 rows.
template <class T, class Tiles>
Sides fitting_sides(int padded) {
  for (const Sides sides : {Sides{32, 32}, Sides{32, 16}, Sides{16, 16}, Sides{8, 8}})
    if ((is_wide<T> || sides.keys >= 16) && bytes_of<Tiles>(sides, padded) <= most_scratch) return sides;
  return {};
}

template <class T, class Kernel>
void run(const Exec& exec, const char* label, Kernel kernel) {
  auto& launch = kernel.launch;
  launch.sides = fitting_sides<T, typename Kernel::Tiles>(launch.padded);
  kernel.bytes = bytes_of<typename Kernel::Tiles>(launch.sides, launch.padded);
  const int step = Kernel::step(launch.sides), tiles = (launch.tokens + step - 1) / step;
  RowPolicy policy(exec, launch.heads * tiles, exec_is_host ? 1 : launch.sides.queries, tile_lanes);
  policy.set_scratch_size(scratch_level, Kokkos::PerTeam(kernel.bytes + scratch_alignment));
  Kokkos::parallel_for(label, policy, kernel);
}

}  // namespace

template <class T>
bool attention_fuses(const AttentionShape& shape) {
  return fitting_sides<T, typename KeyGradient<T>::Tiles>(Launch<T>(shape).padded).keys > 0;
}

template <class T>
void fused_attention_forward(const Exec& exec, const AttentionShape& shape, const Matrix<const T>& qkv,
                             const Matrix<T>& out, const Vector<Wide<T>>& log_sums) {
  if (shape.samples == 0) return;
  run<T>(exec, "shardmark::attention_fused::forward",
         Forward<T>{Launch<T>(shape), qkv.data(), out.data(), log_sums.data()});
}

template <class T>
void fused_attention_backward(const Exec& exec, const AttentionShape& shape, const Matrix<const T>& dout,
                              const Matrix<const T>& qkv, const Matrix<const T>& out,
                              const Vector<const Wide<T>>& log_sums, const Matrix<T>& dqkv,
                              const Vector<Wide<T>>& scratch) {
  if (shape.samples == 0) return;
  const Launch<T> launch(shape);
  run<T>(exec, "shardmark::attention_fused::query_gradient",
         QueryGradient<T>{
             {launch, qkv.data(), out.data(), dout.data(), log_sums.data(), scratch.data(), dqkv.data()}});
  run<T>(exec, "shardmark::attention_fused::key_gradient",
         KeyGradient<T>{
             {launch, qkv.data(), out.data(), dout.data(), log_sums.data(), scratch.data(), dqkv.data()}});
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
