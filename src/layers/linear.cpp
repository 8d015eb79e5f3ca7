// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/linear.hpp"

#include "core/kernels.hpp"
#include "core/precision.hpp"
#include "layers/gemm.hpp"

namespace shardmark {

/// Each row of y = bias + that row of the residual; the product is added to it.
template <class T, class Y>
void start_rows(const Exec& exec, const Vector<const T>& bias, const Matrix<const T>& residual,
                const Matrix<Y>& y) {
  const bool with_bias = bias.extent(0) != 0, with_residual = residual.extent(0) != 0;
  Kokkos::parallel_for(
      "shardmark::linear::start_rows", row_policy(exec, y.extent(0)), KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank();
        Y* out = &y(row, 0);
        if (with_bias && with_residual) {
          const T* in = &residual(row, 0);
          row_for(member, y.extent(1), [&](std::size_t i) { out[i] = in[i] + bias(i); });
        } else if (with_bias) {
          row_for(member, y.extent(1), [&](std::size_t i) { out[i] = bias(i); });
        } else {
          const T* in = &residual(row, 0);
          row_for(member, y.extent(1), [&](std::size_t i) { out[i] = in[i]; });
        }
      });
}

template <class T, class Y>
void linear_forward(const Exec& exec, const Matrix<const T>& x, const Matrix<const T>& weight,
                    const Vector<const T>& bias, const Matrix<const T>& residual, const Matrix<Y>& y) {
  if (y.extent(0) == 0) return;
  const bool started = bias.extent(0) != 0 || residual.extent(0) != 0;
  if (started) start_rows<T>(exec, bias, residual, y);
  gemm<T>(exec, Op::none, Op::transpose, 1, x, weight, started ? 1 : 0, y);
}

template <class T, class G>
void linear_backward(const Exec& exec, const Matrix<const T>& dy, const Matrix<const T>& x,
                     const Matrix<const T>& weight, const Matrix<G>& dweight, const Vector<G>& dbias,
                     const Matrix<T>& dx, Into into_weight) {
  if (dy.extent(0) == 0) return;
  gemm<T>(exec, Op::transpose, Op::none, 1, dy, x, into_weight == Into::add ? 1 : 0, dweight);
  if (dbias.extent(0) != 0) {
    add_column_sums(
        exec, "shardmark::linear::bias_gradient", dy.extent(0), dy.extent(1),
        KOKKOS_LAMBDA(std::size_t row, std::size_t column)->Wide<T> { return dy(row, column); }, dbias);
  }
  if (dx.extent(0) != 0) gemm<T>(exec, Op::none, Op::none, 1, dy, weight, 0, dx);
}

#define SHARDMARK_INSTANTIATE(T, Y)                                                               \
  template void linear_forward<T, Y>(const Exec&, const Matrix<const T>&, const Matrix<const T>&, \
                                     const Vector<const T>&, const Matrix<const T>&, const Matrix<Y>&);
SHARDMARK_INSTANTIATE(float, float)
SHARDMARK_INSTANTIATE(double, double)
SHARDMARK_INSTANTIATE(bf16, bf16)
SHARDMARK_INSTANTIATE(bf16, float)
SHARDMARK_INSTANTIATE(fp16, fp16)
SHARDMARK_INSTANTIATE(fp16, float)
#undef SHARDMARK_INSTANTIATE
#define SHARDMARK_INSTANTIATE(T, G)                                                                \
  template void linear_backward<T, G>(const Exec&, const Matrix<const T>&, const Matrix<const T>&, \
                                      const Matrix<const T>&, const Matrix<G>&, const Vector<G>&,  \
                                      const Matrix<T>&, Into);
SHARDMARK_FOR_PRECISIONS(SHARDMARK_INSTANTIATE)

}  // namespace shardmark
