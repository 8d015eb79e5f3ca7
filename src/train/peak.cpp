// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/peak.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "layers/gemm.hpp"

namespace shardmark {

template <class T>
double measure_gemm_peak(const Exec& exec) {
  constexpr std::size_t n = gemm_peak_size;
  constexpr int repeats = 6, products = exec_is_host ? 1 : 8;  // devices are started while they work
  const auto memory = allocate<T>("shardmark::peak::matrices", 3 * n * n);
  Kokkos::deep_copy(exec, memory, T(1));
  const auto a = as_matrix<const T>(memory, n, n);
  const Matrix<const T> b(memory.data() + n * n, n, n);
  const Matrix<T> c(memory.data() + 2 * n * n, n, n);
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    fence(exec, "shardmark::peak::measure_gemm_peak: the clock starts");
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < products; ++i) gemm<T>(exec, Op::none, Op::transpose, T(1), a, b, T(0), c);
    fence(exec, "shardmark::peak::measure_gemm_peak: the clock stops");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * products * n * n * n / seconds.count());
  }
  return best;
}

#ifdef KOKKOS_ENABLE_CUDA

double measure_fma_roof(const Exec&) {
  return 0;
}

#else

namespace {

#if defined(__AVX512F__)
constexpr std::size_t vector_bytes = 64;
#elif defined(__AVX__)
constexpr std::size_t vector_bytes = 32;
#else
constexpr std::size_t vector_bytes = 16;
#endif
using Lanes = float __attribute__((vector_size(vector_bytes)));

// More chains than latency times instructions a cycle (4 x 2 today), fewer than registers (16).
constexpr std::size_t chains = 12;
constexpr int links = 20000;
constexpr double flops_a_thread = 2.0 * chains * links * (vector_bytes / sizeof(float));

/// Chains of s = s x + y: no link can start before the last one has ended. No two chains are the same.
/// By itself, so that all registers are its own.
template <std::size_t... Chain>
[[gnu::noinline]] float multiply_and_add(float x, float y, std::index_sequence<Chain...>) {
  Lanes sums[] = {static_cast<float>(Chain) * y - Lanes{}...};
  for (int link = 0; link < links; ++link) ((sums[Chain] = sums[Chain] * x + y), ...);
  const Lanes sum = (sums[Chain] + ...);
  return sum[0];
}

}  // namespace

double measure_fma_roof(const Exec& exec) {
  constexpr int repeats = 50;
  const int threads = exec.concurrency();
  volatile float x = 0.5f, y = 1;  // unknown to the compiler
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const float factor = x, term = y;
    float sum = 0;
    const auto start = std::chrono::steady_clock::now();
    Kokkos::parallel_reduce(
        "shardmark::peak::fma_roof", Kokkos::RangePolicy<Exec>(exec, 0, threads),
        KOKKOS_LAMBDA(int, float& sum_of_thread) {
          sum_of_thread += multiply_and_add(factor, term, std::make_index_sequence<chains>());
        },
        sum);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    y = sum > 0 ? 1 : 2;  // the sum is needed
    best = std::max(best, threads * flops_a_thread / seconds.count());
  }
  return best;
}

#endif

#define SHARDMARK_INSTANTIATE(T) template double measure_gemm_peak<T>(const Exec&);
SHARDMARK_FOR_SCALARS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
