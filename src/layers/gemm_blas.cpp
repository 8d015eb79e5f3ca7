// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>

#ifndef KOKKOS_ENABLE_CUDA
#include <KokkosBlas3_gemm.hpp>

#include "layers/blas.hpp"
#include "layers/gemm_backends.hpp"

extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
            const int*, const float*, const int*, const float*, float*, const int*);
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
            const int*, const double*, const int*, const double*, double*, const int*);
}

namespace shardmark {

template <class T>
void kernels_gemm(const Exec& exec, Op op_a, Op op_b, T alpha, const Matrix<const T>& a,
                  const Matrix<const T>& b, T beta, const Matrix<T>& c) {
  const char trans_a[] = {static_cast<char>(op_a), 0}, trans_b[] = {static_cast<char>(op_b), 0};
#if KOKKOS_VERSION >= 40000
  KokkosBlas::gemm(exec, trans_a, trans_b, alpha, a, b, beta, c);
#else
  (void)exec;
  KokkosBlas::gemm(trans_a, trans_b, alpha, a, b, beta, c);  // always on the default instance
#endif
}
template void kernels_gemm(const Exec&, Op, Op, float, const Matrix<const float>&, const Matrix<const float>&,
                           float, const Matrix<float>&);
template void kernels_gemm(const Exec&, Op, Op, double, const Matrix<const double>&,
                           const Matrix<const double>&, double, const Matrix<double>&);

static_assert(exec_is_host, "attention needs a host BLAS or cuBLAS: add this device's batched product here");

namespace {

constexpr auto host_gemm(float) {
  return &sgemm_;
}
constexpr auto host_gemm(double) {
  return &dgemm_;
}

}  // namespace

// BLAS is column-major, so it is given the transposed problem: C^T = op(B)^T op(A)^T.
template <class T>
void blas_gemm(const Exec&, const Product<T, T>& p) {
  const char trans_a = static_cast<char>(p.op_a), trans_b = static_cast<char>(p.op_b);
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  const int row_a = static_cast<int>(p.a.row), row_b = static_cast<int>(p.b.row),
            row_c = static_cast<int>(p.c.row);
  for (std::size_t i = 0; i < p.count; ++i) {
    host_gemm(T())(&trans_b, &trans_a, &n, &m, &k, &p.alpha, p.b.data + i * p.b.batch, &row_b,
                   p.a.data + i * p.a.batch, &row_a, &p.beta, p.c.data + i * p.c.batch, &row_c);
  }
}
template void blas_gemm(const Exec&, const Product<float, float>&);
template void blas_gemm(const Exec&, const Product<double, double>&);

std::string blas_name() {
  const std::string description = blas_description();  // "OpenBLAS 0.3.21 NO_LAPACKE …"
  if (description.rfind("OpenBLAS ", 0) != 0) return "BLAS";
  return description.substr(0, description.find(' ', 9));
}

}  // namespace shardmark
#endif
