// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "layers/gemm.hpp"

// What gemm.cpp chooses from; for the files of gemm only.
namespace shardmark {

/// The arguments of gemm_batched(); no extent is zero.
template <class A, class C>
struct Product {
  Op op_a, op_b;
  std::size_t m, n, k;
  Wide<A> alpha;
  Strided<const A> a, b;
  Wide<A> beta;
  Strided<C> c;
  std::size_t count;
};

/// float or double, by the host's BLAS or cuBLAS.
template <class T>
void blas_gemm(const Exec& exec, const Product<T, T>& product);
/// The same for whole matrices of hosts, by way of Kokkos Kernels. On CUDA it may add up small products with
/// float atomics, in any order.
template <class T>
void kernels_gemm(const Exec& exec, Op op_a, Op op_b, T alpha, const Matrix<const T>& a,
                  const Matrix<const T>& b, T beta, const Matrix<T>& c);
/// Such as "OpenBLAS 0.3.21".
std::string blas_name();

/// All products on CUDA; sums of 16-bit types in float.
template <class A, class C>
void cublas_gemm(const Exec& exec, const Product<A, C>& product);
/// Of float products from now on: whether what they read may be rounded to TF32.
void cublas_allow_tf32(bool allowed);

/// [Note: bf16 on hosts] oneDNN multiplies bf16 by AMX or by AVX512-BF16. The latter has on Intel's
/// processors half the rate of fp32 products (on one of 2.7 GHz 86 GFLOP/s a core against 174, from
/// registers; oneDNN reaches 80 to 85), so that there products by way of fp32, about 150 GFLOP/s, are what is
/// fast.
///
/// Empty where oneDNN is there and multiplies bf16 on this processor itself, else what is lacking.
std::string onednn_lacks();
/// True where emulated products are faster than those.
bool onednn_is_slow();
/// Such as "oneDNN 2.6.3 bf16 avx512_core_bf16".
std::string onednn_description();
template <class C>
void onednn_gemm(const Exec& exec, const Product<bf16, C>& product);

/// float on tiles whose rows are not whole pages apart, where oneDNN is the faster: by oneDNN in builds with
/// it, else by blas_gemm().
void tile_gemm(const Exec& exec, const Product<float, float>& product);
/// Such as "oneDNN 2.6.3 sgemm".
std::string tile_gemm_name();

/// [Note: Emulated products] Any of the types, everywhere: tiles of A and B are converted to float and
/// multiplied by tile_gemm(); a tile of a 16-bit C is added up in float over all of k and rounded once. The
/// scratch of three tiles is allocated at the first call, and the order of all sums is fixed by the shape.
template <class A, class C>
void emulated_gemm(const Exec& exec, const Product<A, C>& product);

}  // namespace shardmark
