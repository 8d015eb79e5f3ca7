// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/write_behind.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace shardmark::checkpoint {
namespace {

/// Small enough that the disk is busy early, large enough for long requests.
constexpr std::size_t bytes_a_start = std::size_t{32} << 20;

/// Starts the writing of all dirty pages of the file, and does not wait for it.
void start_writing([[maybe_unused]] int file) {
#ifdef SYNC_FILE_RANGE_WRITE
  ::sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
#endif
}

}  // namespace

WriteBehind::WriteBehind(const std::string& path, bool active)
    : file_(active ? ::open(path.c_str(), O_WRONLY | O_CLOEXEC) : -1) {}

void WriteBehind::wrote(std::size_t bytes) {
  waiting_ += bytes;
  if (!file_ || waiting_ < bytes_a_start) return;
  start_writing(file_.get());
  waiting_ = 0;
}

void WriteBehind::DescriptorTraits::close(int descriptor) {
  ::close(descriptor);
}

}  // namespace shardmark::checkpoint
