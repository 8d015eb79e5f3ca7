// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/peak.hpp"

#include <algorithm>
#include <chrono>

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

#define SHARDMARK_INSTANTIATE(T) template double measure_gemm_peak<T>(const Exec&);
SHARDMARK_FOR_SCALARS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
