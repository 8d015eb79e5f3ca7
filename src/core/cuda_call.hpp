// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>

#include <string>

#include "core/error.hpp"
#include "core/handle.hpp"

namespace shardmark {

struct CudaEventTraits {
  using type = cudaEvent_t;
  static type empty() { return nullptr; }
  static void close(type event) { cudaEventDestroy(event); }
};
using CudaEvent = Handle<CudaEventTraits>;

namespace detail {

inline void check_cuda(cudaError_t status, const char* expression, const char* file, int line) {
  if (status == cudaSuccess) return;
  throw EnvironmentError(std::string("CUDA: ") + expression + " at " + file + ":" + std::to_string(line) +
                         ": " + cudaGetErrorString(status));
}

}  // namespace detail

/// The one form in which the CUDA runtime is called.
#define SHARDMARK_CUDA(call) ::shardmark::detail::check_cuda((call), #call, __FILE__, __LINE__)

/// One that tells order, not time.
inline CudaEvent make_cuda_event() {
  cudaEvent_t event = nullptr;
  SHARDMARK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return CudaEvent(event);
}

}  // namespace shardmark
#endif
