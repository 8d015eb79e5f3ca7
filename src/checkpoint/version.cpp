// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "checkpoint/format.hpp"
#include "checkpoint/hdf5.hpp"

namespace shardmark::checkpoint {

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}, parallel", major, minor, release);
}

}  // namespace shardmark::checkpoint
