// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "model/model.hpp"
#include "train/config.hpp"

namespace shardmark {

/// A product and the rate that it was seen to have on this rank, all ranks busy with it at once.
struct ProductRate {
  ProductShape shape;
  double flops_per_second = 0;  ///< median of the repeats
};

/// Measures the model's own products, in the types that the run uses; `tell` hears of each when it is done.
/// Collective; throws EnvironmentError where the largest one does not fit in memory.
std::vector<ProductRate> measure_products(const RunConfig& config, const Communicator& world, int repeats,
                                          const std::function<void(const ProductRate&)>& tell = {});

/// Seconds that a full micro-batch's products take at those rates.
double seconds_of(const std::vector<ProductRate>& rates);

struct BenchGemmOptions {
  std::string deck;                    ///< path of the deck
  std::vector<std::string> overrides;  ///< section.key=value
  int repeats = 20;
  std::string json;  ///< file for the figures; empty = none
};

/// `shardmark bench gemm`: GFLOP/s of each of the model's products, and the best, which MFU refers to.
/// Collective. Throws Error.
ExitCode bench_gemm(const BenchGemmOptions& options);

}  // namespace shardmark
