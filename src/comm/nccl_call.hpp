// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<nccl.h>)
#include <nccl.h>

#include <string>

#include "core/error.hpp"

namespace shardmark {

/// NCCL's words for a result, and for the last error of this process.
inline std::string nccl_text(ncclResult_t result) {
  const std::string last = ncclGetLastError(nullptr);
  return ncclGetErrorString(result) + (last.empty() ? last : " (" + last + ")");
}

namespace detail {

inline void check_nccl(ncclResult_t result, const char* expression, const char* file, int line) {
  if (result == ncclSuccess) return;
  throw EnvironmentError(std::string("NCCL: ") + expression + " at " + file + ":" + std::to_string(line) +
                         ": " + nccl_text(result));
}

}  // namespace detail
}  // namespace shardmark

/// The one form in which NCCL is called where nothing can be in progress; NcclEngine has the other.
#define SHARDMARK_NCCL(call) ::shardmark::detail::check_nccl((call), #call, __FILE__, __LINE__)
#endif
