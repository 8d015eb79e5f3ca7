// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "data/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"
#include "core/handle.hpp"

namespace shardmark {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t map_from = 64 * 1024;  // smaller files are read: a process has 65530 maps at most

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw EnvironmentError(fmt::format("data file {} cannot be read: {}", path, reason));
}

struct Descriptor {
  using type = int;
  static int empty() { return -1; }
  static void close(int fd) { ::close(fd); }
};

std::shared_ptr<const std::uint8_t> map_content(const std::string& path, int fd, std::size_t size) {
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) fail(path, std::strerror(errno));
  return {static_cast<const std::uint8_t*>(memory),
          [size](const std::uint8_t* mapped) { ::munmap(const_cast<std::uint8_t*>(mapped), size); }};
}

std::shared_ptr<const std::uint8_t> read_content(const std::string& path, int fd, std::size_t size) {
  std::shared_ptr<std::uint8_t> memory(new std::uint8_t[size], std::default_delete<std::uint8_t[]>());
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = ::read(fd, memory.get() + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, std::strerror(errno));
    if (count == 0) fail(path, "it became shorter meanwhile");
    done += static_cast<std::size_t>(count);
  }
  return memory;
}

bool is_left_out(const fs::path& path) {
  const std::string name = path.filename().string(), extension = path.extension().string();
  if (name.starts_with('.') || extension == ".partial") return true;
  if (fs::is_directory(path))
    return name == "build" || name.starts_with("build-") || fs::exists(path / "CMakeCache.txt");
  return extension == ".h5" || name == "metrics.jsonl" || name == "report.json" || name == "deck.toml" ||
         name.find(".h5.abandoned") != std::string::npos || extension == ".new";
}

void walk(const fs::path& folder, std::vector<std::string>& files) {
  for (fs::recursive_directory_iterator entry(folder), end; entry != end; ++entry) {
    if (is_left_out(entry->path()))
      entry.disable_recursion_pending();
    else if (entry->is_regular_file())
      files.push_back(entry->path().lexically_normal().string());
  }
}

std::vector<std::string> expand(const std::string& pattern) {
  glob_t matches{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &matches);
  std::vector<std::string> paths(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  ::globfree(&matches);
  if (status != 0 && status != GLOB_NOMATCH) fail(pattern, "the pattern cannot be expanded");
  std::erase_if(paths, [](const std::string& path) { return is_left_out(path); });
  return paths;
}

void add_entry(const std::string& entry, Folders folders, std::vector<std::string>& files) {
  const std::size_t before = files.size();
  for (const std::string& path : fs::exists(entry) ? std::vector<std::string>{entry} : expand(entry)) {
    if (!fs::is_directory(path)) {
      files.push_back(fs::path(path).lexically_normal().string());
    } else if (folders == Folders::walk) {
      walk(path, files);
    } else {
      throw DeckError(fmt::format(
          "data.path: {0} is a folder, but this data.kind takes files or patterns such as {0}/*.bin", path));
    }
  }
  if (files.size() == before)
    throw DeckError(
        fmt::format("data.path: no file matches {} (hidden files, build folders and this program's "
                    "own outputs do not count)",
                    entry));
}

}  // namespace

FileContent open_file(const std::string& path) {
  const Handle<Descriptor> file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) fail(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(path, "it is not a regular file");
  const std::size_t size = static_cast<std::size_t>(status.st_size);
  return {path, (size < map_from ? read_content : map_content)(path, file.get(), size), size};
}

std::vector<std::string> find_files(const std::vector<std::string>& entries, Folders folders) {
  if (entries.empty()) throw DeckError("data.path is empty: it names the files to train on");
  std::vector<std::string> files;
  for (const std::string& entry : entries) {
    try {
      add_entry(entry, folders, files);
    } catch (const fs::filesystem_error& error) {
      fail(error.path1().string(), error.code().message());
    }
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace shardmark
