// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "sharding/flat_kernels.hpp"

#include "core/fingerprint.hpp"
#include "core/packs.hpp"
#include "core/rng.hpp"
#include "core/small_float.hpp"

namespace shardmark {

namespace {
using Range = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;  // devices count in 32 bits else
Range over(const Exec& exec, std::size_t n) {
  return Range(exec, 0, static_cast<std::int64_t>(n));
}
}  // namespace

template <class T>
void fill(const Exec& exec, double value, const Vector<T>& data) {
  const T converted = static_cast<T>(value);
  Kokkos::parallel_for(
      "shardmark::flat_kernels::fill", over(exec, data.extent(0)),
      KOKKOS_LAMBDA(const std::size_t i) { data(i) = converted; });
}

template <class T>
void zero(const Exec& exec, const Chunks& chunks, const Vector<T>& data) {
  if (chunks.count() == 0) return;
  const auto table = chunks.table();
  Kokkos::parallel_for(
      "shardmark::flat_kernels::zero", chunks.policy(exec), KOKKOS_LAMBDA(const RowMember& member) {
        const Chunk& chunk = table(member.league_rank());
        row_apply(
            member, chunk.size, [](std::size_t, T& x) { x = T(0); }, writes(data.data() + chunk.offset));
      });
}

template <class From, class To>
void copy(const Exec& exec, const Vector<From>& from, const Vector<To>& to) {
  Kokkos::parallel_for(
      "shardmark::flat_kernels::copy", over(exec, to.extent(0)),
      KOKKOS_LAMBDA(const std::size_t i) { to(i) = static_cast<To>(from(i)); });
}

template <class T>
void add(const Exec& exec, const Vector<T>& from, const Vector<T>& to) {
  Kokkos::parallel_for(
      "shardmark::flat_kernels::add", over(exec, to.extent(0)),
      KOKKOS_LAMBDA(const std::size_t i) { to(i) += from(i); });
}

template <class T>
void draw_weights(const Exec& exec, const Parameter& parameter, std::uint64_t seed, const Segment& segment,
                  const Vector<T>& out) {
  if (parameter.init.kind != Init::Kind::normal) {
    const T value = parameter.init.kind == Init::Kind::ones ? T(1) : T(0);
    Kokkos::parallel_for(
        "shardmark::flat_kernels::set", over(exec, out.extent(0)),
        KOKKOS_LAMBDA(const std::size_t i) { out(i) = value; });
    return;
  }
  const double deviation = parameter.init.standard_deviation;
  const std::uint64_t key = stream_key(seed, parameter.name);
  const std::size_t first = segment.begin;
  Kokkos::parallel_for(
      "shardmark::flat_kernels::draw_weights", over(exec, out.extent(0)), KOKKOS_LAMBDA(const std::size_t i) {
        out(i) = static_cast<T>(deviation * Philox(key, first + i).normal());
      });
}

template <class T>
std::uint64_t fingerprint(const Exec& exec, const Vector<const T>& data, std::size_t first) {
  std::uint64_t sum = 0;
  Kokkos::parallel_reduce(
      "shardmark::flat_kernels::fingerprint", over(exec, data.extent(0)),
      KOKKOS_LAMBDA(const std::size_t i, std::uint64_t& partial) {
        partial += fingerprint_term(first + i, data(i));
      },
      sum);
  return sum;
}

#define SHARDMARK_INSTANTIATE(T)                                                           \
  template void copy(const Exec&, const Vector<T>&, const Vector<T>&);                     \
  template void draw_weights(const Exec&, const Parameter&, std::uint64_t, const Segment&, \
                             const Vector<T>&);                                            \
  template std::uint64_t fingerprint(const Exec&, const Vector<const T>&, std::size_t);
SHARDMARK_INSTANTIATE(float)
SHARDMARK_INSTANTIATE(double)
#undef SHARDMARK_INSTANTIATE

#define SHARDMARK_INSTANTIATE(T)                                    \
  template void fill(const Exec&, double, const Vector<T>&);        \
  template void zero(const Exec&, const Chunks&, const Vector<T>&); \
  template void add(const Exec&, const Vector<T>&, const Vector<T>&);
SHARDMARK_INSTANTIATE(float)
SHARDMARK_INSTANTIATE(double)
SHARDMARK_INSTANTIATE(bf16)
SHARDMARK_INSTANTIATE(fp16)
#undef SHARDMARK_INSTANTIATE

template void copy(const Exec&, const Vector<float>&, const Vector<bf16>&);
template void copy(const Exec&, const Vector<float>&, const Vector<fp16>&);

}  // namespace shardmark
