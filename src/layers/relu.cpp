// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/relu.hpp"

#include "core/kernels.hpp"
#include "core/precision.hpp"

namespace shardmark {

template <class T>
void relu_forward(const Exec& exec, const Matrix<T>& y) {
  if (y.extent(0) == 0) return;
  Kokkos::parallel_for(
      "shardmark::relu::forward", row_policy(exec, y.extent(0)), KOKKOS_LAMBDA(const RowMember& member) {
        T* row = &y(member.league_rank(), 0);
        row_for(member, y.extent(1), [&](std::size_t i) {
          const Wide<T> value = row[i];
          row[i] = value < 0 ? 0 : value;
        });
      });
}

template <class T>
void relu_backward(const Exec& exec, const Matrix<const T>& y, const Matrix<T>& dy) {
  if (y.extent(0) == 0) return;
  Kokkos::parallel_for(
      "shardmark::relu::backward", row_policy(exec, y.extent(0)), KOKKOS_LAMBDA(const RowMember& member) {
        const T* output = &y(member.league_rank(), 0);
        T* gradient = &dy(member.league_rank(), 0);
        row_for(member, y.extent(1), [&](std::size_t i) {
          const Wide<T> value = gradient[i];
          gradient[i] = output[i] > 0 ? value : 0;
        });
      });
}

#define SHARDMARK_INSTANTIATE(T)                             \
  template void relu_forward(const Exec&, const Matrix<T>&); \
  template void relu_backward(const Exec&, const Matrix<const T>&, const Matrix<T>&);
SHARDMARK_FOR_SCALARS(SHARDMARK_INSTANTIATE)

}  // namespace shardmark
