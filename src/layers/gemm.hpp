// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/dtype.hpp"
#include "core/precision.hpp"
#include "core/types.hpp"

namespace shardmark {

/// What was put through gemm() and gemm_batched() since the last reset.
struct GemmCounter {
  std::uint64_t calls = 0;
  double flops = 0;    ///< 2 m n k a product
  double seconds = 0;  ///< inside them; stays 0 on devices, where calls return before the work is done
};
/// The counter of this process. To reset it, assign GemmCounter{}. Main thread only.
GemmCounter& gemm_counter();

/// Chooses what multiplies matrices of `param`, for the rest of the run. `wish` is precision.gemm: "native"
/// takes a library that multiplies this type itself, "emulated" converts tiles to Wide<T> and back, "auto" is
/// the faster of them ([Note: bf16 on hosts]) where there is a native way. `tf32` (precision.tf32) lets
/// cuBLAS round what fp32 products read to TF32's 10 bits of fraction. Throws DeckError where the wish cannot
/// be met here. Without a call hosts emulate 16-bit products.
void choose_gemm(Dtype param, const std::string& wish, bool tf32 = false);

/// Whether products of A, bf16 or fp16, are a library's that multiplies them as they are; false for others.
template <class A>
bool gemm_is_native();

/// What multiplies matrices of `param` now, such as "OpenBLAS 0.3.21 sgemm".
std::string gemm_description(Dtype param);

/// Name and version of the library for bf16 products in this build; empty where it has none.
std::string onednn_version();

enum class Op : char { none = 'N', transpose = 'T' };

/// C = alpha op(A) op(B) + beta C, row-major: op(A) is (m, k), op(B) is (k, n), C is (m, n). Any extent may
/// be zero; with k = 0 the product counts as zeros. With beta = 0 what C held does not matter, NaN included.
/// Sums are those of Wide<A>; a narrower C is rounded once. (A, C) is one of (float, float), (double,
/// double), (float, bf16), (bf16, float), (bf16, bf16), (fp16, float), (fp16, fp16).
template <class A, class C = A>
void gemm(const Exec& exec, Op op_a, Op op_b, Wide<A> alpha, const Matrix<const A>& a,
          const Matrix<const A>& b, Wide<A> beta, const Matrix<C>& c);

/// A row-major matrix inside a larger array, one of several at equal distance.
template <class T>
struct Strided {
  T* data;            ///< of the first matrix, in device memory
  std::size_t row;    ///< elements from one row to the next
  std::size_t batch;  ///< elements from one matrix to the next
};

/// `count` products like gemm's on matrices at equal distance. m, n, k are those of op(A) and op(B), not
/// zero.
template <class A, class C = A>
void gemm_batched(const Exec& exec, Op op_a, Op op_b, std::size_t m, std::size_t n, std::size_t k,
                  Wide<A> alpha, const Strided<const A>& a, const Strided<const A>& b, Wide<A> beta,
                  const Strided<C>& c, std::size_t count);

}  // namespace shardmark
