// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>

#include <string>

#include "core/error.hpp"

namespace shardmark::detail {

inline void check_cuda(cudaError_t status, const char* expression, const char* file, int line) {
  if (status == cudaSuccess) return;
  throw EnvironmentError(std::string("CUDA: ") + expression + " at " + file + ":" + std::to_string(line) +
                         ": " + cudaGetErrorString(status));
}

}  // namespace shardmark::detail

/// The one form in which the CUDA runtime is called.
#define SHARDMARK_CUDA(call) ::shardmark::detail::check_cuda((call), #call, __FILE__, __LINE__)
#endif
