// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/types.hpp"

namespace shardmark {

/// What was put through gemm() and gemm_batched() since the last reset.
struct GemmCounter {
  std::uint64_t calls = 0;
  double flops = 0;    ///< 2 m n k a product
  double seconds = 0;  ///< inside BLAS; stays 0 on devices, where calls return before the work is done
};
/// The counter of this process. To reset it, assign GemmCounter{}. Main thread only.
GemmCounter& gemm_counter();

enum class Op : char { none = 'N', transpose = 'T' };

/// C = alpha op(A) op(B) + beta C, row-major: op(A) is (m, k), op(B) is (k, n), C is (m, n). Any extent may
/// be zero; with k = 0 the product counts as zeros. With beta = 0 what C held does not matter, NaN included.
template <class T>
void gemm(const Exec& exec, Op op_a, Op op_b, T alpha, const Matrix<const T>& a, const Matrix<const T>& b,
          T beta, const Matrix<T>& c);

/// A row-major matrix inside a larger array, one of several at equal distance.
template <class T>
struct Strided {
  T* data;            ///< of the first matrix, in device memory
  std::size_t row;    ///< elements from one row to the next
  std::size_t batch;  ///< elements from one matrix to the next
};

/// `count` products like gemm's on matrices at equal distance. m, n, k are those of op(A) and op(B), not
/// zero.
template <class T>
void gemm_batched(const Exec& exec, Op op_a, Op op_b, std::size_t m, std::size_t n, std::size_t k, T alpha,
                  const Strided<const T>& a, const Strided<const T>& b, T beta, const Strided<T>& c,
                  std::size_t count);

}  // namespace shardmark
