// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/layernorm.hpp"

#include "core/math.hpp"
#include "core/packs.hpp"

namespace shardmark {

template <class T>
void layernorm_forward(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& gamma,
                       const Vector<const T>& beta, const Matrix<T>& y,
                       const LayernormStatistics<Wide<T>>& statistics) {
  using W = Wide<T>;
  if (x.extent(0) == 0) return;
  Kokkos::parallel_for(
      "shardmark::layernorm::forward", row_policy(exec, x.extent(0)), KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank(), width = x.extent(1);
        const T* in = &x(row, 0);
        T* out = &y(row, 0);
        const W mean = row_sum(
                           member, width, [](std::size_t, const T& x_i) -> W { return x_i; }, reads(in)) /
                       width;
        const W variance =
            row_sum(
                member, width, [&](std::size_t, const T& x_i) { return (x_i - mean) * (x_i - mean); },
                reads(in)) /
            width;
        const W rstd = 1 / math::sqrt(variance + W(layernorm_epsilon));
        row_apply(
            member, width,
            [&](std::size_t, const T& x_i, const T& gamma_i, const T& beta_i, T& y_i) {
              y_i = (x_i - mean) * rstd * gamma_i + beta_i;
            },
            reads(in), reads(gamma.data()), reads(beta.data()), writes(out));
        if (member.team_rank() == 0) {
          statistics.mean(row) = mean;
          statistics.rstd(row) = rstd;
        }
      });
}

template <class T, class G>
void layernorm_backward(const Exec& exec, const Matrix<const T>& dy, const Matrix<const T>& x,
                        const Vector<const T>& gamma, const LayernormStatistics<Wide<T>>& statistics,
                        const Vector<G>& dgamma, const Vector<G>& dbeta, const Matrix<T>& dx, Into into) {
  using W = Wide<T>;
  const std::size_t rows = x.extent(0), width = x.extent(1);
  if (rows == 0) return;
  add_column_sums(
      exec, "shardmark::layernorm::gamma_gradient", rows, width,
      KOKKOS_LAMBDA(std::size_t row, std::size_t i) {
        return dy(row, i) * (x(row, i) - statistics.mean(row)) * statistics.rstd(row);
      },
      dgamma);
  add_column_sums(
      exec, "shardmark::layernorm::beta_gradient", rows, width,
      KOKKOS_LAMBDA(std::size_t row, std::size_t i)->W { return dy(row, i); }, dbeta);

  const bool add = into == Into::add;
  Kokkos::parallel_for(
      "shardmark::layernorm::backward", row_policy(exec, rows), KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank();
        const W mean = statistics.mean(row), rstd = statistics.rstd(row);
        const T *in = &x(row, 0), *gradient = &dy(row, 0);
        T* out = &dx(row, 0);
        // With n = (x - mean) rstd and g = gamma dy: dx = rstd (g - mean(g) - n mean(g n)).
        const auto g = reads(gradient), weight = reads(gamma.data()), from = reads(in);
        const W mean_g =
            row_sum(
                member, width, [](std::size_t, const T& g_i, const T& gamma_i) { return gamma_i * g_i; }, g,
                weight) /
            width;
        const W mean_gn = row_sum(
                              member, width,
                              [&](std::size_t, const T& g_i, const T& gamma_i, const T& x_i) {
                                return gamma_i * g_i * (x_i - mean);
                              },
                              g, weight, from) *
                          rstd / width;
        const auto value = [&](const T& g_i, const T& gamma_i, const T& x_i) {
          const W normal = (x_i - mean) * rstd;
          return rstd * (gamma_i * g_i - mean_g - normal * mean_gn);
        };
        if (add)
          row_apply(
              member, width,
              [&](std::size_t, T& dx_i, const T& g_i, const T& gamma_i, const T& x_i) {
                dx_i = dx_i + value(g_i, gamma_i, x_i);
              },
              updates(out), g, weight, from);
        else
          row_apply(
              member, width,
              [&](std::size_t, T& dx_i, const T& g_i, const T& gamma_i, const T& x_i) {
                dx_i = value(g_i, gamma_i, x_i);
              },
              writes(out), g, weight, from);
      });
}

#define SHARDMARK_INSTANTIATE(T)                                                                  \
  template void layernorm_forward<T>(const Exec&, const Matrix<const T>&, const Vector<const T>&, \
                                     const Vector<const T>&, const Matrix<T>&,                    \
                                     const LayernormStatistics<Wide<T>>&);
SHARDMARK_FOR_SCALARS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE
#define SHARDMARK_INSTANTIATE(T, G)                                                                   \
  template void layernorm_backward<T, G>(const Exec&, const Matrix<const T>&, const Matrix<const T>&, \
                                         const Vector<const T>&, const LayernormStatistics<Wide<T>>&, \
                                         const Vector<G>&, const Vector<G>&, const Matrix<T>&, Into);
SHARDMARK_FOR_PRECISIONS(SHARDMARK_INSTANTIATE)

}  // namespace shardmark
