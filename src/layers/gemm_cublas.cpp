// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>

#ifdef KOKKOS_ENABLE_CUDA
#include <cublas_v2.h>

#include "core/error.hpp"
#include "layers/gemm_backends.hpp"

namespace shardmark {
namespace {

void check(cublasStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw EnvironmentError(std::string("cuBLAS: ") + expression + " at " + file + ":" + std::to_string(line) +
                         ": " + cublasGetStatusString(status));
}
/// The one form in which cuBLAS is called.
#define SHARDMARK_CUBLAS(call) check((call), #call, __FILE__, __LINE__)

bool tf32_allowed = false;

/// The process's cuBLAS handle, set to the stream of `exec`. It lives until Kokkos is finalised.
cublasHandle_t handle_on(const Exec& exec) {
  static cublasHandle_t handle = nullptr;
  if (handle == nullptr) {
    SHARDMARK_CUBLAS(cublasCreate(&handle));
    // Sums over k stay in float, also where cuBLAS splits them.
    SHARDMARK_CUBLAS(cublasSetMathMode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
    Kokkos::push_finalize_hook([] { cublasDestroy(handle); });
  }
  SHARDMARK_CUBLAS(cublasSetStream(handle, exec.cuda_stream()));
  return handle;
}

cublasOperation_t cublas(Op op) {
  return op == Op::none ? CUBLAS_OP_N : CUBLAS_OP_T;
}

template <class T>
constexpr cudaDataType_t cuda_type = CUDA_R_32F;
template <>
constexpr cudaDataType_t cuda_type<double> = CUDA_R_64F;
template <>
constexpr cudaDataType_t cuda_type<bf16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t cuda_type<fp16> = CUDA_R_16F;

/// What products of A are computed in.
template <class A>
cublasComputeType_t compute_type() {
  if (std::is_same_v<A, double>) return CUBLAS_COMPUTE_64F;
  return std::is_same_v<A, float> && tf32_allowed ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

}  // namespace

void cublas_allow_tf32(bool allowed) {
  tf32_allowed = allowed;
}

// cuBLAS is column-major, so it is given the transposed problem: C^T = op(B)^T op(A)^T.
template <class A, class C>
void cublas_gemm(const Exec& exec, const Product<A, C>& p) {
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  const int row_a = static_cast<int>(p.a.row), row_b = static_cast<int>(p.b.row),
            row_c = static_cast<int>(p.c.row);
  const cublasHandle_t handle = handle_on(exec);
  if (p.count == 1) {
    SHARDMARK_CUBLAS(cublasGemmEx(handle, cublas(p.op_b), cublas(p.op_a), n, m, k, &p.alpha, p.b.data,
                                  cuda_type<A>, row_b, p.a.data, cuda_type<A>, row_a, &p.beta, p.c.data,
                                  cuda_type<C>, row_c, compute_type<A>(), CUBLAS_GEMM_DEFAULT));
    return;
  }
  SHARDMARK_CUBLAS(cublasGemmStridedBatchedEx(
      handle, cublas(p.op_b), cublas(p.op_a), n, m, k, &p.alpha, p.b.data, cuda_type<A>, row_b,
      static_cast<long long>(p.b.batch), p.a.data, cuda_type<A>, row_a, static_cast<long long>(p.a.batch),
      &p.beta, p.c.data, cuda_type<C>, row_c, static_cast<long long>(p.c.batch), static_cast<int>(p.count),
      compute_type<A>(), CUBLAS_GEMM_DEFAULT));
}
#define SHARDMARK_INSTANTIATE(A, C) template void cublas_gemm(const Exec&, const Product<A, C>&);
SHARDMARK_INSTANTIATE(bf16, float)
SHARDMARK_INSTANTIATE(bf16, bf16)
SHARDMARK_INSTANTIATE(fp16, float)
SHARDMARK_INSTANTIATE(fp16, fp16)

template <class T>
void blas_gemm(const Exec& exec, const Product<T, T>& product) {
  cublas_gemm(exec, product);
}
template void blas_gemm(const Exec&, const Product<float, float>&);
template void blas_gemm(const Exec&, const Product<double, double>&);

std::string blas_name() {
  int version = 0;
  return cublasGetVersion(handle_on(Exec()), &version) == CUBLAS_STATUS_SUCCESS
             ? "cuBLAS " + std::to_string(version)
             : "cuBLAS";
}

}  // namespace shardmark
#endif
