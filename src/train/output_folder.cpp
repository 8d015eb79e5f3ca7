// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/output_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace shardmark {

namespace {
/// Open MPI's shared-file-pointer component overflows a buffer at longer paths (seen from 220 on,
/// with 4.1.4).
constexpr std::size_t longest_path = 180;
}  // namespace

OutputFolder::OutputFolder(const Communicator& world, const std::string& path) {
  world.agree([&] {
    if (world.rank() != 0) return;
    std::error_code failure;
    const std::size_t length = std::filesystem::absolute(path, failure).string().size();
    if (length > longest_path)
      throw EnvironmentError(path + ": this folder's path has " + std::to_string(length) +
                             " characters; MPI-IO takes at most " + std::to_string(longest_path));
    std::filesystem::create_directories(path, failure);
    lock_ = failure ? -1 : open((path + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock_ < 0)
      throw EnvironmentError(path + ": this folder can't be made or written to: " +
                             (failure ? failure.message() : std::strerror(errno)));
    // The lock is the process's, so one folder may serve for two ends. A file system without locks is not
    // asked twice.
    struct flock whole = {};
    whole.l_type = F_WRLCK;
    if (fcntl(lock_, F_SETLK, &whole) != 0 && (errno == EAGAIN || errno == EACCES))
      throw EnvironmentError(
          path + ": another run is writing to this folder; choose another output.dir or checkpoint.dir");
  });
}

OutputFolder::~OutputFolder() {
  if (lock_ >= 0) close(lock_);
}

}  // namespace shardmark
