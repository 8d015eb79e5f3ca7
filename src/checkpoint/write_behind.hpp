// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "core/handle.hpp"

namespace shardmark::checkpoint {

/// Has the system start to write a file's dirty pages to the disk while more of it is still being copied into
/// the page cache, so that the fsync at the end finds little to do: a save takes about the longer of the two
/// instead of their sum. A hint, and no part of what makes a checkpoint safe: errors are left for the fsync
/// to report, and systems without sync_file_range(2) do without.
class WriteBehind {
 public:
  /// `path` is an existing file; where `active` is false nothing is ever done.
  WriteBehind(const std::string& path, bool active);

  /// Says that `bytes` more were written to the file by this process.
  void wrote(std::size_t bytes);

 private:
  struct DescriptorTraits {
    using type = int;
    static type empty() { return -1; }
    static void close(type descriptor);
  };

  Handle<DescriptorTraits> file_;
  std::size_t waiting_ = 0;  ///< bytes since the last start
};

}  // namespace shardmark::checkpoint
