// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/gelu.hpp"

#include "core/math.hpp"
#include "core/packs.hpp"
#include "core/precision.hpp"

namespace shardmark {
namespace {

// 2u = x (linear + cubic x^2), with linear = 2 sqrt(2 / pi). T is float or double.
template <class T>
struct Gelu {
  static constexpr T linear = T(1.5957691216057307118);
  static constexpr T cubic = T(0.044715 * 1.5957691216057307118);

  /// y / x
  KOKKOS_INLINE_FUNCTION static T gate(T x) { return 1 / (1 + math::exp(-x * (linear + cubic * (x * x)))); }
  /// dy / dx
  KOKKOS_INLINE_FUNCTION static T slope(T x) {
    const T g = gate(x);
    return g + x * g * (1 - g) * (linear + 3 * cubic * (x * x));
  }
};

}  // namespace

template <class T>
void gelu_forward(const Exec& exec, const Vector<const T>& bias, const Matrix<T>& x, const Matrix<T>& y) {
  if (x.extent(0) == 0) return;
  Kokkos::parallel_for(
      "shardmark::gelu::forward", row_policy(exec, x.extent(0)), KOKKOS_LAMBDA(const RowMember& member) {
        T* in = &x(member.league_rank(), 0);
        T* out = &y(member.league_rank(), 0);
        row_apply(
            member, x.extent(1),
            [](std::size_t, T& in_i, const T& bias_i, T& out_i) {
              in_i = in_i + bias_i;
              const Wide<T> value = in_i;
              out_i = value * Gelu<Wide<T>>::gate(value);
            },
            updates(in), reads(bias.data()), writes(out));
      });
}

template <class T>
void gelu_backward(const Exec& exec, const Matrix<const T>& x, const Matrix<T>& dy) {
  if (x.extent(0) == 0) return;
  Kokkos::parallel_for(
      "shardmark::gelu::backward", row_policy(exec, x.extent(0)), KOKKOS_LAMBDA(const RowMember& member) {
        const T* in = &x(member.league_rank(), 0);
        T* gradient = &dy(member.league_rank(), 0);
        row_apply(
            member, x.extent(1), [](std::size_t, T& g, const T& in_i) { g = g * Gelu<Wide<T>>::slope(in_i); },
            updates(gradient), reads(in));
      });
}

#define SHARDMARK_INSTANTIATE(T)                                                                       \
  template void gelu_forward(const Exec&, const Vector<const T>&, const Matrix<T>&, const Matrix<T>&); \
  template void gelu_backward(const Exec&, const Matrix<const T>&, const Matrix<T>&);
SHARDMARK_FOR_SCALARS(SHARDMARK_INSTANTIATE)

}  // namespace shardmark
