// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/gelu.hpp"

#include "core/math.hpp"
#include "core/packs.hpp"
#include "core/precision.hpp"

namespace shardmark {
namespace {

// 2u = x (linear + cubic x^2), with linear = 2 sqrt(2 / pi).
template <class T>
constexpr T linear = T(1.5957691216057307118);
template <class T>
constexpr T cubic = T(0.044715 * 1.5957691216057307118);

}  // namespace

template <class T>
void gelu_forward(const Exec& exec, const Vector<const T>& bias, const Matrix<T>& slope, const Matrix<T>& y) {
  using W = Wide<T>;
  if (y.extent(0) == 0) return;
  Kokkos::parallel_for(
      "shardmark::gelu::forward", row_policy(exec, y.extent(0)), KOKKOS_LAMBDA(const RowMember& member) {
        T* in = &slope(member.league_rank(), 0);
        T* out = &y(member.league_rank(), 0);
        row_apply(
            member, y.extent(1),
            [](std::size_t, T& in_i, const T& bias_i, T& out_i) {
              const W x = static_cast<W>(in_i) + static_cast<W>(bias_i), square = x * x;
              const W gate = 1 / (1 + math::exp(-x * (linear<W> + cubic<W> * square)));  // y / x
              const W value = x * gate;
              out_i = value;
              in_i = gate + value * (1 - gate) * (linear<W> + 3 * cubic<W> * square);
            },
            updates(in), reads(bias.data()), writes(out));
      });
}

template <class T>
void gelu_backward(const Exec& exec, const Matrix<const T>& slope, const Matrix<T>& dy) {
  if (dy.extent(0) == 0) return;
  Kokkos::parallel_for(
      "shardmark::gelu::backward", row_policy(exec, dy.extent(0)), KOKKOS_LAMBDA(const RowMember& member) {
        const T* in = &slope(member.league_rank(), 0);
        T* gradient = &dy(member.league_rank(), 0);
        row_apply(
            member, dy.extent(1), [](std::size_t, T& g, const T& slope_i) { g = g * slope_i; },
            updates(gradient), reads(in));
      });
}

#define SHARDMARK_INSTANTIATE(T)                                                                       \
  template void gelu_forward(const Exec&, const Vector<const T>&, const Matrix<T>&, const Matrix<T>&); \
  template void gelu_backward(const Exec&, const Matrix<const T>&, const Matrix<T>&);
SHARDMARK_FOR_SCALARS(SHARDMARK_INSTANTIATE)

}  // namespace shardmark
