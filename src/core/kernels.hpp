// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "core/types.hpp"

namespace shardmark {

/// [Note: Row kernels] Most kernels work on the rows of a matrix: a team of threads a row. On hosts the team
/// is one thread and the loop over the row is a plain one that vectorises; on devices the team shares it.
/// Element i of a row belongs to the same thread in every loop of a kernel, and row_sum and row_max end with
/// all threads of the team at the same point. Sums do not depend on the number of host threads.
using RowPolicy = Kokkos::TeamPolicy<Exec>;
using RowMember = RowPolicy::member_type;

/// Threads of a team.
inline constexpr int row_threads = exec_is_host ? 1 : 128;

/// One team for each of `rows` rows, which must not be zero; league_rank() is the row.
inline RowPolicy row_policy(const Exec& exec, std::size_t rows) {
  return RowPolicy(exec, static_cast<int>(rows), row_threads);
}

// Kernels are compiled for devices too, where the pragma means nothing.
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
#define SHARDMARK_SIMD(clauses)
#else
#define SHARDMARK_SIMD(clauses) _Pragma(clauses)
#endif

/// f(i) for i in [0, n).
template <class Function>
KOKKOS_FORCEINLINE_FUNCTION void row_for(const RowMember& member, std::size_t n, const Function& f) {
  if constexpr (exec_is_host) {
    SHARDMARK_SIMD("omp simd")
    for (std::size_t i = 0; i < n; ++i) f(i);
  } else {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member, n), f);
  }
}

namespace detail {

/// combine(…combine(start, f(0))…, f(n - 1)) for an operation in which order does not matter but for
/// rounding: in lanes of one 512-bit vector each, which are combined at the end. `start` may count more than
/// once.
template <class T, class Function, class Combine>
KOKKOS_FORCEINLINE_FUNCTION T reduce_row_host(std::size_t n, T start, const Function& f,
                                              const Combine& combine) {
  constexpr std::size_t lanes = 64 / sizeof(T);
  T parts[lanes];
  for (T& part : parts) part = start;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    SHARDMARK_SIMD("omp simd")
    for (std::size_t lane = 0; lane < lanes; ++lane) parts[lane] = combine(parts[lane], f(i + lane));
  }
  for (; i < n; ++i) parts[0] = combine(parts[0], f(i));
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) parts[lane] = combine(parts[lane], parts[lane + half]);
  return parts[0];
}

}  // namespace detail

/// The sum of f(i), of f's type, over i in [0, n), on every thread of the team. f is called once for each i.
template <class Function>
KOKKOS_FORCEINLINE_FUNCTION auto row_sum(const RowMember& member, std::size_t n, const Function& f) {
  using T = decltype(f(n));
  T sum = 0;
  if constexpr (exec_is_host) {
    sum = detail::reduce_row_host(n, sum, f, [](T a, T b) { return a + b; });
  } else {
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(member, n), [&](std::size_t i, T& part) { part += f(i); }, sum);
  }
  return sum;
}

/// The largest f(i) over i in [0, n), on every thread of the team; `lowest` where there is none.
template <class T, class Function>
KOKKOS_FORCEINLINE_FUNCTION T row_max(const RowMember& member, std::size_t n, T lowest, const Function& f) {
  T largest = lowest;
  if constexpr (exec_is_host) {
    largest = detail::reduce_row_host(n, lowest, f, [](T a, T b) { return b > a ? b : a; });
  } else {
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(member, n), [&](std::size_t i, T& part) { part = f(i) > part ? f(i) : part; },
        Kokkos::Max<T>(largest));
    largest = largest > lowest ? largest : lowest;
  }
  return largest;
}

namespace detail {

template <class Sum, class T, class Function>
void add_column_sums_host(const Exec& exec, const std::string& label, std::size_t rows, std::size_t columns,
                          const Function& f, const Vector<T>& out) {
  constexpr std::size_t lanes = 64;  // neighbouring columns that a team takes through all rows
  const auto policy = row_policy(exec, (columns + lanes - 1) / lanes);
  Kokkos::parallel_for(
      label, policy, KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t begin = member.league_rank() * lanes;
        const std::size_t width = columns - begin < lanes ? columns - begin : lanes;
        const auto add = [&](std::size_t n) {
          Sum sums[lanes] = {};
          for (std::size_t row = 0; row < rows; ++row)
            row_for(member, n, [&](std::size_t i) { sums[i] += f(row, begin + i); });
          row_for(member, n, [&](std::size_t i) { out(begin + i) += sums[i]; });
        };
        // With a constant extent the sums stay in registers.
        if (width == lanes)
          add(lanes);
        else
          add(width);
      });
}

template <class Sum, class T, class Function>
void add_column_sums_device(const Exec& exec, const std::string& label, std::size_t rows, std::size_t columns,
                            const Function& f, const Vector<T>& out) {
  // A team: 16 columns, 32 threads a column. There are few teams, each with all rows, so that a thread has
  // many loads on their way at a time.
  constexpr std::size_t lanes = 16, groups = 32, ahead = 8;
  using Scratch = Kokkos::View<Sum*, Exec::scratch_memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  RowPolicy policy(exec, (columns + lanes - 1) / lanes, lanes * groups);
  policy.set_scratch_size(0, Kokkos::PerTeam(Scratch::shmem_size(lanes * groups)));
  Kokkos::parallel_for(
      label, policy, KOKKOS_LAMBDA(const RowMember& member) {
        const Scratch sums(member.team_scratch(0), lanes * groups);
        const std::size_t lane = member.team_rank() % lanes, group = member.team_rank() / lanes;
        const std::size_t column = member.league_rank() * lanes + lane;
        Sum sum = 0;
        std::size_t row = column < columns ? group : rows;
        for (; row + (ahead - 1) * groups < rows; row += ahead * groups) {
          Sum values[ahead];
          for (std::size_t i = 0; i < ahead; ++i) values[i] = f(row + i * groups, column);
          for (std::size_t i = 0; i < ahead; ++i) sum += values[i];
        }
        for (; row < rows; row += groups) sum += f(row, column);
        sums(member.team_rank()) = sum;
        member.team_barrier();
        if (group != 0 || column >= columns) return;
        for (std::size_t other = 1; other < groups; ++other) sum += sums(other * lanes + lane);
        out(column) += sum;
      });
}

}  // namespace detail

/// Adds the sum over the rows of f(row, column) to out(column), in an order that only the shape decides. The
/// sum is of f's type, which may be wider than out's.
template <class T, class Function>
void add_column_sums(const Exec& exec, const std::string& label, std::size_t rows, std::size_t columns,
                     const Function& f, const Vector<T>& out) {
  using Sum = decltype(f(rows, columns));
  if constexpr (exec_is_host)
    detail::add_column_sums_host<Sum>(exec, label, rows, columns, f, out);
  else
    detail::add_column_sums_device<Sum>(exec, label, rows, columns, f, out);
}

}  // namespace shardmark
