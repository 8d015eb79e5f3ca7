// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <string>

#include "core/error.hpp"

namespace shardmark::detail {

inline void check_mpi(int status, const char* expression, const char* file, int line) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw EnvironmentError(std::string("MPI: ") + expression + " at " + file + ":" + std::to_string(line) +
                         ": " + text);
}

}  // namespace shardmark::detail

/// The one form in which MPI is called.
#define SHARDMARK_MPI(call) ::shardmark::detail::check_mpi((call), #call, __FILE__, __LINE__)
