// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/embedding.hpp"

#include "core/kernels.hpp"

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

template <class T>
void embedding_backward(const Exec& exec, const Matrix<const std::int32_t>& tokens, const Matrix<const T>& dx,
                        const Matrix<T>& dwte, const Matrix<T>& dwpe) {
  const std::size_t samples = tokens.extent(0), context = dwpe.extent(0), width = dwpe.extent(1);
  if (samples == 0) return;
  // The team of a token's first occurrence adds the rows of all its occurrences, in order: no two teams
  // write to one row of dwte. Looking for the others reads B T tokens a team, little beside a row's products.
  Kokkos::parallel_for(
      "shardmark::embedding::token_gradient", row_policy(exec, samples * context),
      KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t first = member.league_rank();
        const std::int32_t token = tokens(first / context, first % context);
        for (std::size_t sample = 0; sample * context < first; ++sample) {
          const std::size_t before = first - sample * context;
          const int seen = row_sum(member, before < context ? before : context,
                                   [&](std::size_t t) { return tokens(sample, t) == token ? 1 : 0; });
          if (seen != 0) return;
        }
        T* out = &dwte(token, 0);
        for (std::size_t row = first; row < samples * context; ++row) {
          if (tokens(row / context, row % context) != token) continue;
          const T* gradient = &dx(row, 0);
          row_for(member, width, [&](std::size_t i) { out[i] += gradient[i]; });
        }
      });
  Kokkos::parallel_for(
      "shardmark::embedding::position_gradient", row_policy(exec, context),
      KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t t = member.league_rank();
        T* out = &dwpe(t, 0);
        for (std::size_t sample = 0; sample < samples; ++sample) {
          const T* gradient = &dx(sample * context + t, 0);
          row_for(member, width, [&](std::size_t i) { out[i] += gradient[i]; });
        }
      });
}

#define SHARDMARK_INSTANTIATE(T)                                                                           \
  template void embedding_forward(const Exec&, const Matrix<const std::int32_t>&, const Matrix<const T>&,  \
                                  const Matrix<const T>&, const Matrix<T>&);                               \
  template void embedding_backward(const Exec&, const Matrix<const std::int32_t>&, const Matrix<const T>&, \
                                   const Matrix<T>&, const Matrix<T>&);
SHARDMARK_INSTANTIATE(float)
SHARDMARK_INSTANTIATE(double)

}  // namespace shardmark
