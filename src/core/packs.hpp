// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/kernels.hpp"

namespace shardmark {

/// [Note: Packs] Row kernels whose operands are whole rows: f(i, a, b, …) gets element i of each operand, by
/// reference. Devices move 16 bytes of every operand, or more of the wider ones, at a time: a pack, which is
/// loaded, worked on in registers and stored by one thread. Where operands do not reach a multiple of 16
/// bytes at the same element, a row of odd length in one and a vector in another, they go one element at a
/// time; else only what is left over at both ends does. On hosts it is the loop that it looks like.
template <class T>
struct Reads {
  const T* data;
};
template <class T>
struct Writes {  ///< nothing is loaded: f writes all that it gets
  T* data;
};
template <class T>
struct Updates {
  T* data;
};
template <class T>
KOKKOS_FORCEINLINE_FUNCTION Reads<T> reads(const T* data) {
  return {data};
}
template <class T>
KOKKOS_FORCEINLINE_FUNCTION Writes<T> writes(T* data) {
  return {data};
}
template <class T>
KOKKOS_FORCEINLINE_FUNCTION Updates<T> updates(T* data) {
  return {data};
}

namespace detail {

template <class T, int N>
struct alignas(N == 1 ? alignof(T) : 16) Pack {
  T x[N];
};
template <int N, class T>
KOKKOS_FORCEINLINE_FUNCTION Pack<T, N> load_pack(const T* data) {
  return *reinterpret_cast<const Pack<T, N>*>(data);
}
template <int N, class T>
KOKKOS_FORCEINLINE_FUNCTION void store_pack(T* data, const Pack<T, N>& pack) {
#ifdef __CUDA_ARCH__
  // By CUDA's own function, since nvcc stores a struct that was filled member by member in pieces.
  if constexpr (N > 1) {
    for (std::size_t i = 0; i < sizeof pack / sizeof(uint4); ++i) {
      uint4 word;
      memcpy(&word, reinterpret_cast<const uint4*>(&pack) + i, sizeof word);
      __stwb(reinterpret_cast<uint4*>(data) + i, word);
    }
    return;
  }
#endif
  *reinterpret_cast<Pack<T, N>*>(data) = pack;
}

/// N elements of an operand from the i-th on, while a thread has them.
template <int N, class Operand>
struct Held;
template <int N, class T>
struct Held<N, Reads<T>> {
  Pack<T, N> pack;
  KOKKOS_FORCEINLINE_FUNCTION Held(const Reads<T>& from, std::size_t i) : pack(load_pack<N>(from.data + i)) {}
  KOKKOS_FORCEINLINE_FUNCTION const T& operator[](int u) const { return pack.x[u]; }
  KOKKOS_FORCEINLINE_FUNCTION void put() const {}
};
template <int N, class T>
struct Held<N, Writes<T>> {
  Pack<T, N> pack;
  T* home;
  KOKKOS_FORCEINLINE_FUNCTION Held(const Writes<T>& to, std::size_t i) : home(to.data + i) {}
  KOKKOS_FORCEINLINE_FUNCTION T& operator[](int u) { return pack.x[u]; }
  KOKKOS_FORCEINLINE_FUNCTION void put() const { store_pack<N>(home, pack); }
};
template <int N, class T>
struct Held<N, Updates<T>> {
  Pack<T, N> pack;
  T* home;
  KOKKOS_FORCEINLINE_FUNCTION Held(const Updates<T>& both, std::size_t i)
      : pack(load_pack<N>(both.data + i)), home(both.data + i) {}
  KOKKOS_FORCEINLINE_FUNCTION T& operator[](int u) { return pack.x[u]; }
  KOKKOS_FORCEINLINE_FUNCTION void put() const { store_pack<N>(home, pack); }
};

/// f on N elements from the i-th on.
template <int N, class Function, class... Holders>
KOKKOS_FORCEINLINE_FUNCTION void apply_pack(std::size_t i, const Function& f, Holders... held) {
  for (int u = 0; u < N; ++u) f(i + u, held[u]...);
  (held.put(), ...);
}

/// Elements of a pack: the narrowest operand has 16 bytes.
template <class... T>
KOKKOS_FORCEINLINE_FUNCTION constexpr int pack_size() {
  std::size_t narrowest = 16;
  ((narrowest = sizeof(T) < narrowest ? sizeof(T) : narrowest), ...);
  return static_cast<int>(16 / narrowest);
}

/// How the n elements of a row are dealt out: `packs` packs from element `head` on, and `edges` single ones.
struct Deal {
  std::size_t head, packs, edges;

  template <class... T>
  KOKKOS_FORCEINLINE_FUNCTION Deal(std::size_t n, std::size_t size, const T*... data) {
    const std::size_t places[] = {reinterpret_cast<std::uintptr_t>(data) / sizeof(T) % size...};
    bool together = true;
    for (std::size_t place : places) together = together && place == places[0];
    head = together ? (size - places[0]) % size : n;
    if (head > n) head = n;
    packs = (n - head) / size;
    edges = n - packs * size;
  }
};

/// f(…) on all elements that item t of the deal has.
template <int N, class Function, class... Operands>
KOKKOS_FORCEINLINE_FUNCTION void apply_item(const Deal& deal, std::size_t t, const Function& f,
                                            const Operands&... operands) {
  if (t < deal.packs) {
    const std::size_t i = deal.head + t * N;
    apply_pack<N>(i, f, Held<N, Operands>(operands, i)...);
  } else {
    const std::size_t edge = t - deal.packs, i = edge < deal.head ? edge : edge + deal.packs * N;
    apply_pack<1>(i, f, Held<1, Operands>(operands, i)...);
  }
}

}  // namespace detail

/// f(i, element of each operand) for i in [0, n).
template <class Function, class... Operands>
KOKKOS_FORCEINLINE_FUNCTION void row_apply(const RowMember& member, std::size_t n, const Function& f,
                                           const Operands&... operands) {
  if constexpr (exec_is_host) {
    SHARDMARK_SIMD("omp simd")
    for (std::size_t i = 0; i < n; ++i) f(i, operands.data[i]...);
  } else {
    constexpr int size = detail::pack_size<std::remove_reference_t<decltype(*operands.data)>...>();
    const detail::Deal deal(n, size, operands.data...);
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member, deal.packs + deal.edges),
                         [&](std::size_t t) { detail::apply_item<size>(deal, t, f, operands...); });
  }
}

/// The sum of f(i, …), of f's type, over i in [0, n), on every thread of the team.
template <class Function, class... Operands>
KOKKOS_FORCEINLINE_FUNCTION auto row_sum(const RowMember& member, std::size_t n, const Function& f,
                                         const Operands&... operands) {
  using T = decltype(f(n, operands.data[0]...));
  if constexpr (exec_is_host) {
    return row_sum(member, n, [&](std::size_t i) { return f(i, operands.data[i]...); });
  } else {
    constexpr int size = detail::pack_size<std::remove_reference_t<decltype(*operands.data)>...>();
    const detail::Deal deal(n, size, operands.data...);
    T sum = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(member, deal.packs + deal.edges),
        [&](std::size_t t, T& part) {
          detail::apply_item<size>(
              deal, t, [&](std::size_t i, auto&... x) { part += f(i, x...); }, operands...);
        },
        sum);
    return sum;
  }
}

/// The largest of the n values, at least one, on every thread of the team.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T row_max(const RowMember& member, std::size_t n, const Reads<T>& values) {
  const T first = values.data[0];
  if constexpr (exec_is_host) {
    return row_max(member, n, first, [&](std::size_t i) { return values.data[i]; });
  } else {
    constexpr int size = detail::pack_size<T>();
    const detail::Deal deal(n, size, values.data);
    T largest = first;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(member, deal.packs + deal.edges),
        [&](std::size_t t, T& part) {
          detail::apply_item<size>(
              deal, t, [&](std::size_t, const T& x) { part = x > part ? x : part; }, values);
        },
        Kokkos::Max<T>(largest));
    return largest > first ? largest : first;
  }
}

}  // namespace shardmark
