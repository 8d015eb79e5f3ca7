// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/gemm.hpp"

#include <KokkosBlas3_gemm.hpp>
#include <chrono>
#include <string>

#include "core/error.hpp"

#ifdef KOKKOS_ENABLE_CUDA
#include <cublas_v2.h>
#else
extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
            const int*, const float*, const int*, const float*, float*, const int*);
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
            const int*, const double*, const int*, const double*, double*, const int*);
}
#endif

namespace shardmark {

GemmCounter& gemm_counter() {
  static GemmCounter counter;
  return counter;
}

namespace {

/// Counts what happens during its life, and shows it to Kokkos Tools.
class GemmRegion {
 public:
  GemmRegion(const std::string& label, double flops) : start_(Clock::now()) {
    Kokkos::Profiling::pushRegion(label);
    ++gemm_counter().calls;
    gemm_counter().flops += flops;
  }
  ~GemmRegion() {
    Kokkos::Profiling::popRegion();
    if (exec_is_host) gemm_counter().seconds += std::chrono::duration<double>(Clock::now() - start_).count();
  }
  GemmRegion(const GemmRegion&) = delete;
  GemmRegion& operator=(const GemmRegion&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
};

template <class T>
void scale(const Exec& exec, T beta, const Matrix<T>& c) {
  const std::size_t columns = c.extent(1);
  Kokkos::parallel_for(
      "shardmark::gemm::scale",
      Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>(
          exec, 0, static_cast<std::int64_t>(c.extent(0) * columns)),
      KOKKOS_LAMBDA(const std::size_t i) {
        T& value = c(i / columns, i % columns);
        value = beta == T(0) ? T(0) : beta * value;
      });
}

// BLAS is column-major, so it is given the transposed problem: C^T = op(B)^T op(A)^T.
#ifdef KOKKOS_ENABLE_CUDA

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw EnvironmentError(std::string(call) + " failed: " + cublasGetStatusString(status));
}

/// The process's cuBLAS handle, set to the stream of `exec`. It lives until Kokkos is finalised.
cublasHandle_t handle_on(const Exec& exec) {
  static cublasHandle_t handle = nullptr;
  if (handle == nullptr) {
    check(cublasCreate(&handle), "cublasCreate");
    Kokkos::push_finalize_hook([] { cublasDestroy(handle); });
  }
  check(cublasSetStream(handle, exec.cuda_stream()), "cublasSetStream");
  return handle;
}

cublasOperation_t cublas(Op op) {
  return op == Op::none ? CUBLAS_OP_N : CUBLAS_OP_T;
}

void blas_batched(const Exec& exec, Op op_a, Op op_b, int m, int n, int k, float alpha,
                  const Strided<const float>& a, const Strided<const float>& b, float beta,
                  const Strided<float>& c, int count) {
  check(cublasSgemmStridedBatched(handle_on(exec), cublas(op_b), cublas(op_a), n, m, k, &alpha, b.data, b.row,
                                  b.batch, a.data, a.row, a.batch, &beta, c.data, c.row, c.batch, count),
        "cublasSgemmStridedBatched");
}
void blas_batched(const Exec& exec, Op op_a, Op op_b, int m, int n, int k, double alpha,
                  const Strided<const double>& a, const Strided<const double>& b, double beta,
                  const Strided<double>& c, int count) {
  check(cublasDgemmStridedBatched(handle_on(exec), cublas(op_b), cublas(op_a), n, m, k, &alpha, b.data, b.row,
                                  b.batch, a.data, a.row, a.batch, &beta, c.data, c.row, c.batch, count),
        "cublasDgemmStridedBatched");
}

#else
static_assert(exec_is_host, "attention needs a host BLAS or cuBLAS: add this device's batched product here");

constexpr auto host_gemm(float) {
  return &sgemm_;
}
constexpr auto host_gemm(double) {
  return &dgemm_;
}

template <class T>
void blas_batched(const Exec&, Op op_a, Op op_b, int m, int n, int k, T alpha, const Strided<const T>& a,
                  const Strided<const T>& b, T beta, const Strided<T>& c, int count) {
  const char trans_a = static_cast<char>(op_a), trans_b = static_cast<char>(op_b);
  const int row_a = static_cast<int>(a.row), row_b = static_cast<int>(b.row), row_c = static_cast<int>(c.row);
  for (int i = 0; i < count; ++i) {
    host_gemm(T())(&trans_b, &trans_a, &n, &m, &k, &alpha, b.data + i * b.batch, &row_b, a.data + i * a.batch,
                   &row_a, &beta, c.data + i * c.batch, &row_c);
  }
}
#endif

}  // namespace

template <class T>
void gemm(const Exec& exec, Op op_a, Op op_b, T alpha, const Matrix<const T>& a, const Matrix<const T>& b,
          T beta, const Matrix<T>& c) {
  static const std::string label = "shardmark::gemm::gemm";
  const std::size_t m = c.extent(0), n = c.extent(1), k = a.extent(op_a == Op::none ? 1 : 0);
  if (m == 0 || n == 0) return;
  if (k == 0) return scale(exec, beta, c);
  const char trans_a[] = {static_cast<char>(op_a), 0}, trans_b[] = {static_cast<char>(op_b), 0};
  const GemmRegion region(label, 2.0 * m * n * k);
#if KOKKOS_VERSION >= 40000
  KokkosBlas::gemm(exec, trans_a, trans_b, alpha, a, b, beta, c);
#else
  KokkosBlas::gemm(trans_a, trans_b, alpha, a, b, beta, c);  // always on the default instance
#endif
}

template <class T>
void gemm_batched(const Exec& exec, Op op_a, Op op_b, std::size_t m, std::size_t n, std::size_t k, T alpha,
                  const Strided<const T>& a, const Strided<const T>& b, T beta, const Strided<T>& c,
                  std::size_t count) {
  static const std::string label = "shardmark::gemm::batched";
  const GemmRegion region(label, 2.0 * m * n * k * count);
  blas_batched(exec, op_a, op_b, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha, a, b,
               beta, c, static_cast<int>(count));
}

#define SHARDMARK_INSTANTIATE(T)                                                                     \
  template void gemm(const Exec&, Op, Op, T, const Matrix<const T>&, const Matrix<const T>&, T,      \
                     const Matrix<T>&);                                                              \
  template void gemm_batched(const Exec&, Op, Op, std::size_t, std::size_t, std::size_t, T,          \
                             const Strided<const T>&, const Strided<const T>&, T, const Strided<T>&, \
                             std::size_t);
SHARDMARK_INSTANTIATE(float)
SHARDMARK_INSTANTIATE(double)

}  // namespace shardmark
