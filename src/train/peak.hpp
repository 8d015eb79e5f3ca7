// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/types.hpp"

namespace shardmark {

/// The best rate, in FLOP/s, of a few (1024, 1024) x (1024, 1024) products on this rank, all ranks at the
/// same time: the peak that the model FLOP share (MFU) refers to.
template <class T>
double measure_gemm_peak(const Exec& exec);

}  // namespace shardmark
