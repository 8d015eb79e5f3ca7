// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/types.hpp"

namespace shardmark {

/// Rows and columns of the products below: such that they take most of what the processor has.
inline constexpr std::size_t gemm_peak_size = exec_is_host ? 1024 : 4096;

/// The best rate, in FLOP/s, of a few products of square matrices on this rank, all ranks at the same time:
/// the peak that the model FLOP share (MFU) refers to.
template <class T>
double measure_gemm_peak(const Exec& exec);

/// The roof over every product in fp32: FLOP/s of multiply-adds whose operands are all in registers, on the
/// threads of `exec`, best of a few tenths of a millisecond each. 0 on devices, where it is not measured.
double measure_fma_roof(const Exec& exec);

}  // namespace shardmark
