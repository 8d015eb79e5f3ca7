// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/layernorm.hpp"

#include "core/kernels.hpp"
#include "core/math.hpp"

namespace shardmark {

template <class T>
void layernorm_forward(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& gamma,
                       const Vector<const T>& beta, const Matrix<T>& y,
                       const LayernormStatistics<T>& statistics) {
  if (x.extent(0) == 0) return;
  Kokkos::parallel_for(
      "shardmark::layernorm::forward", row_policy(exec, x.extent(0)), KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank(), width = x.extent(1);
        const T* in = &x(row, 0);
        T* out = &y(row, 0);
        const T mean = row_sum(member, width, [&](std::size_t i) { return in[i]; }) / width;
        const T variance =
            row_sum(member, width, [&](std::size_t i) { return (in[i] - mean) * (in[i] - mean); }) / width;
        const T rstd = 1 / math::sqrt(variance + T(layernorm_epsilon));
        row_for(member, width, [&](std::size_t i) { out[i] = (in[i] - mean) * rstd * gamma(i) + beta(i); });
        if (member.team_rank() == 0) {
          statistics.mean(row) = mean;
          statistics.rstd(row) = rstd;
        }
      });
}

template <class T>
void layernorm_backward(const Exec& exec, const Matrix<const T>& dy, const Matrix<const T>& x,
                        const Vector<const T>& gamma, const LayernormStatistics<T>& statistics,
                        const Vector<T>& dgamma, const Vector<T>& dbeta, const Matrix<T>& dx, Into into) {
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
      KOKKOS_LAMBDA(std::size_t row, std::size_t i) { return dy(row, i); }, dbeta);

  const T keep = into == Into::add ? 1 : 0;
  Kokkos::parallel_for(
      "shardmark::layernorm::backward", row_policy(exec, rows), KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank();
        const T mean = statistics.mean(row), rstd = statistics.rstd(row);
        const T *in = &x(row, 0), *gradient = &dy(row, 0);
        T* out = &dx(row, 0);
        // With n = (x - mean) rstd and g = gamma dy: dx = rstd (g - mean(g) - n mean(g n)).
        const T mean_g =
            row_sum(member, width, [&](std::size_t i) { return gamma(i) * gradient[i]; }) / width;
        const T mean_gn =
            row_sum(member, width, [&](std::size_t i) { return gamma(i) * gradient[i] * (in[i] - mean); }) *
            rstd / width;
        row_for(member, width, [&](std::size_t i) {
          const T normal = (in[i] - mean) * rstd;
          const T value = rstd * (gamma(i) * gradient[i] - mean_g - normal * mean_gn);
          out[i] = keep != 0 ? out[i] + value : value;
        });
      });
}

#define SHARDMARK_INSTANTIATE(T)                                                                            \
  template void layernorm_forward(const Exec&, const Matrix<const T>&, const Vector<const T>&,              \
                                  const Vector<const T>&, const Matrix<T>&, const LayernormStatistics<T>&); \
  template void layernorm_backward(const Exec&, const Matrix<const T>&, const Matrix<const T>&,             \
                                   const Vector<const T>&, const LayernormStatistics<T>&, const Vector<T>&, \
                                   const Vector<T>&, const Matrix<T>&, Into);
SHARDMARK_INSTANTIATE(float)
SHARDMARK_INSTANTIATE(double)

}  // namespace shardmark
