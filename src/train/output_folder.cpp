// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/output_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

namespace shardmark {

namespace {
/// Open MPI's shared-file-pointer component overflows a buffer at longer paths (seen from 220 on,
/// with 4.1.4).
constexpr std::size_t longest_path = 180;

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Rank 0 leaves a token in the folder, which every rank must find within some seconds: network file systems
/// show new files late.
void require_shared(const Communicator& world, const std::string& path) {
  const std::string file = path + "/.token";
  std::string token;
  world.agree([&] {
    if (world.rank() != 0) return;
    token = fmt::format("{:016x}{:016x}", std::random_device()(), std::random_device()());
    if (!(std::ofstream(file) << token << std::flush)) throw EnvironmentError(file + ": can't be written");
  });
  token = world.host_broadcast(token, 0);
  const Stopwatch watch;
  bool seen = false;
  while (!(seen = content_of(file) == token) && watch.seconds() < 5)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  world.barrier();
  std::error_code ignored;
  if (world.rank() == 0) std::filesystem::remove(file, ignored);
  world.agree([&] {
    if (seen) return;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    throw EnvironmentError(
        fmt::format("{}: rank {} on host {} does not see what rank 0 wrote there; output.dir and "
                    "checkpoint.dir must lie on a file system that all nodes share",
                    path, world.rank(), host));
  });
}

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
  require_shared(world, path);
}

OutputFolder::~OutputFolder() {
  if (lock_ >= 0) close(lock_);
}

}  // namespace shardmark
