// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/mean_squared_error.hpp"

#include "core/kernels.hpp"
#include "core/precision.hpp"

namespace shardmark {

// One team walks the rows in order: outputs are few, and the sum is the same for any number of threads.
template <class T>
void mean_squared_error(const Exec& exec, const Matrix<const T>& outputs, const Matrix<const T>& responses,
                        const Vector<double>& loss_sum) {
  if (outputs.extent(0) == 0) return;
  Kokkos::parallel_for(
      "shardmark::mean_squared_error::loss", row_policy(exec, 1), KOKKOS_LAMBDA(const RowMember& member) {
        double sum = 0;
        for (std::size_t row = 0; row < outputs.extent(0); ++row) {
          sum += row_sum(member, outputs.extent(1), [&](std::size_t i) {
            const double error =
                static_cast<double>(outputs(row, i)) - static_cast<double>(responses(row, i));
            return error * error;
          });
        }
        if (member.team_rank() == 0) loss_sum(0) += sum;
      });
}

template <class T>
void mean_squared_error_and_gradient(const Exec& exec, double loss_scale, const Matrix<T>& outputs,
                                     const Matrix<const T>& responses, const Vector<double>& loss_sum) {
  mean_squared_error<T>(exec, outputs, responses, loss_sum);
  if (outputs.extent(0) == 0) return;
  const auto scale = static_cast<Wide<T>>(2 * loss_scale);
  Kokkos::parallel_for(
      "shardmark::mean_squared_error::gradient", row_policy(exec, outputs.extent(0)),
      KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank();
        row_for(member, outputs.extent(1),
                [&](std::size_t i) { outputs(row, i) = scale * (outputs(row, i) - responses(row, i)); });
      });
}

#define SHARDMARK_INSTANTIATE(T)                                                                \
  template void mean_squared_error(const Exec&, const Matrix<const T>&, const Matrix<const T>&, \
                                   const Vector<double>&);                                      \
  template void mean_squared_error_and_gradient(const Exec&, double, const Matrix<T>&,          \
                                                const Matrix<const T>&, const Vector<double>&);
SHARDMARK_FOR_SCALARS(SHARDMARK_INSTANTIATE)

}  // namespace shardmark
