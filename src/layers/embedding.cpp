// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/embedding.hpp"

#include <type_traits>

#include "core/kernels.hpp"
#include "core/precision.hpp"

namespace shardmark {

template <class T>
void embedding_forward(const Exec& exec, const Matrix<const std::int32_t>& tokens, const Matrix<const T>& wte,
                       const Matrix<const T>& wpe, const Matrix<T>& x) {
  const std::size_t context = wpe.extent(0), width = wpe.extent(1);
  if (x.extent(0) == 0) return;
  Kokkos::parallel_for(
      "shardmark::embedding::forward", row_policy(exec, x.extent(0)), KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank(), t = row % context;
        const T *token = &wte(tokens(row / context, t), 0), *position = &wpe(t, 0);
        T* out = &x(row, 0);
        row_for(member, width, [&](std::size_t i) { out[i] = token[i] + position[i]; });
      });
}

/// Adds rows first, first + step, … of dx that `wanted` accepts to out, in this order: in Wide<T>, from what
/// out holds, rounded to G once. A thread of the team has columns of its own, up to `lanes` at a time.
template <class T, class G, class Wanted>
KOKKOS_INLINE_FUNCTION void add_rows(const RowMember& member, const Matrix<const T>& dx, std::size_t first,
                                     std::size_t step, const Wanted& wanted, G* out) {
  constexpr std::size_t threads = row_threads, lanes = exec_is_host ? 1024 : 8;
  const std::size_t rows = dx.extent(0), width = dx.extent(1);
  for (std::size_t begin = member.team_rank(); begin < width; begin += lanes * threads) {
    const std::size_t columns = (width - begin + threads - 1) / threads,
                      n = columns < lanes ? columns : lanes;
    Wide<T> sums[lanes];
    SHARDMARK_SIMD("omp simd")
    for (std::size_t i = 0; i < n; ++i) sums[i] = out[begin + i * threads];
    for (std::size_t row = first; row < rows; row += step) {
      if (!wanted(row)) continue;
      const T* gradient = &dx(row, begin);
      SHARDMARK_SIMD("omp simd")
      for (std::size_t i = 0; i < n; ++i) sums[i] += gradient[i * threads];
    }
    SHARDMARK_SIMD("omp simd")
    for (std::size_t i = 0; i < n; ++i) out[begin + i * threads] = sums[i];
  }
}

/// dwte where sums of dwte's own type are wide enough, on hosts: a team has columns of its own and takes the
/// rows in order.
template <class T, class G>
void add_token_rows_host(const Exec& exec, const Matrix<const std::int32_t>& tokens,
                         const Matrix<const T>& dx, std::size_t context, const Matrix<G>& dwte) {
  constexpr std::size_t lanes = 128;
  const std::size_t samples = tokens.extent(0), width = dx.extent(1);
  Kokkos::parallel_for(
      "shardmark::embedding::token_gradient", row_policy(exec, (width + lanes - 1) / lanes),
      KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t begin = member.league_rank() * lanes;
        const std::size_t n = width - begin < lanes ? width - begin : lanes;
        for (std::size_t sample = 0; sample < samples; ++sample) {
          for (std::size_t t = 0; t < context; ++t) {
            const T* gradient = &dx(sample * context + t, begin);
            G* out = &dwte(tokens(sample, t), begin);
            row_for(member, n, [&](std::size_t i) { out[i] += gradient[i]; });
          }
        }
      });
}

/// dwte otherwise. The team of a token's first occurrence adds the rows of all its occurrences, in order: no
/// two teams write to one row. Looking for the others reads B T tokens a team.
template <class T, class G>
void add_token_rows(const Exec& exec, const Matrix<const std::int32_t>& tokens, const Matrix<const T>& dx,
                    std::size_t context, const Matrix<G>& dwte) {
  Kokkos::parallel_for(
      "shardmark::embedding::token_gradient", row_policy(exec, tokens.extent(0) * context),
      KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t first = member.league_rank();
        const std::int32_t token = tokens(first / context, first % context);
        for (std::size_t sample = 0; sample * context < first; ++sample) {
          const std::size_t before = first - sample * context;
          const int seen = row_sum(member, before < context ? before : context,
                                   [&](std::size_t t) { return tokens(sample, t) == token ? 1 : 0; });
          if (seen != 0) return;
        }
        const auto same = [&](std::size_t row) { return tokens(row / context, row % context) == token; };
        add_rows(member, dx, first, 1, same, &dwte(token, 0));
      });
}

template <class T, class G>
void embedding_backward(const Exec& exec, const Matrix<const std::int32_t>& tokens, const Matrix<const T>& dx,
                        const Matrix<G>& dwte, const Matrix<G>& dwpe) {
  const std::size_t context = dwpe.extent(0);
  if (tokens.extent(0) == 0) return;
  if constexpr (exec_is_host && std::is_same_v<G, Wide<T>>)
    add_token_rows_host(exec, tokens, dx, context, dwte);
  else
    add_token_rows(exec, tokens, dx, context, dwte);
  Kokkos::parallel_for(
      "shardmark::embedding::position_gradient", row_policy(exec, context),
      KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t t = member.league_rank();
        add_rows(
            member, dx, t, context, [](std::size_t) { return true; }, &dwpe(t, 0));
      });
}

#define SHARDMARK_INSTANTIATE(T)                                                                             \
  template void embedding_forward<T>(const Exec&, const Matrix<const std::int32_t>&, const Matrix<const T>&, \
                                     const Matrix<const T>&, const Matrix<T>&);
SHARDMARK_FOR_SCALARS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE
#define SHARDMARK_INSTANTIATE(T, G)                                                      \
  template void embedding_backward<T, G>(const Exec&, const Matrix<const std::int32_t>&, \
                                         const Matrix<const T>&, const Matrix<G>&, const Matrix<G>&);
SHARDMARK_FOR_PRECISIONS(SHARDMARK_INSTANTIATE)

}  // namespace shardmark
