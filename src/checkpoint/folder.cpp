// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include "checkpoint/format.hpp"
#include "core/fingerprint.hpp"

namespace shardmark::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step_", suffix = ".h5";
constexpr std::string_view shards_suffix = ".shards";
constexpr const char* abandoned_suffix = ".abandoned";
constexpr std::string_view partial_prefix = ".step_", partial_suffix = ".h5.partial";
constexpr std::string_view partial_shards_suffix = ".shards.partial";
constexpr std::size_t digits = 8;

[[noreturn]] void fail(const std::string& what, const std::string& path, const std::string& reason) {
  throw EnvironmentError("cannot " + what + " " + path + ": " + reason);
}

std::string name_of(std::string_view before, std::uint64_t step, std::string_view after) {
  const std::string number = std::to_string(step);
  std::string name(before);
  name.append(digits - std::min(digits, number.size()), '0').append(number).append(after);
  return name;
}

/// The step in `name` = before, 8 digits or more, after; nothing for any other name.
std::optional<std::uint64_t> parse_step(std::string_view name, std::string_view before,
                                        std::string_view after) {
  if (!name.starts_with(before) || !name.ends_with(after) ||
      name.size() < before.size() + digits + after.size())
    return {};
  name = name.substr(before.size(), name.size() - before.size() - after.size());
  std::uint64_t step = 0;
  const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (status != std::errc{} || end != name.data() + name.size()) return {};
  return step;
}

std::vector<fs::path> entries(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    paths.push_back(it->path());
  if (error && error != std::errc::no_such_file_or_directory) fail("read", folder, error.message());
  return paths;
}

/// A file, or a folder with all that it holds.
void remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail("remove", path, error.message());
}

/// Opens `path`, gives `call` the descriptor, and throws where it returns neither 0 nor one of `allowed`.
template <class Call>
void with_descriptor(const char* what, const std::string& path, int flags, std::initializer_list<int> allowed,
                     Call call) {
  const int descriptor = ::open(path.c_str(), flags, 0666);
  const int reason = descriptor >= 0 && call(descriptor) == 0 ? 0 : errno;
  if (descriptor >= 0) ::close(descriptor);
  if (reason != 0 && std::find(allowed.begin(), allowed.end(), reason) == allowed.end())
    fail(what, path, std::strerror(reason));
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

constexpr std::string_view digest_mark = "\nSHARDMARK-DIGEST";

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(file)), {});
  if (!file.is_open() || file.bad()) fail("read", path, std::strerror(errno));
  return content;
}

/// 16 hexadecimal digits.
std::string digest_of(std::string_view bytes) {
  std::uint64_t digest = bytes.size();
  for (char byte : bytes) digest = mix64(digest ^ static_cast<unsigned char>(byte));
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(digest));
  return text;
}

std::string folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

void rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail("rename", from, error.message());
}

int write_zeros(int descriptor, std::uint64_t bytes) {
  const std::vector<char> zeros(65536, 0);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, zeros.data(), std::min<std::uint64_t>(bytes, zeros.size()));
    if (written < 0) return -1;
    bytes -= static_cast<std::uint64_t>(written);
  }
  return ::fsync(descriptor);
}

}  // namespace

std::string file_name(std::uint64_t step) {
  return name_of(prefix, step, suffix);
}

std::string partial_path(const std::string& folder, std::uint64_t step) {
  return (fs::path(folder) / name_of(partial_prefix, step, partial_suffix)).string();
}

std::string partial_shards_path(const std::string& folder, std::uint64_t step) {
  return (fs::path(folder) / name_of(partial_prefix, step, partial_shards_suffix)).string();
}

std::string shards_name(std::uint64_t step) {
  return name_of(prefix, step, shards_suffix);
}

std::string shards_path(const std::string& checkpoint) {
  return fs::path(checkpoint).replace_extension(shards_suffix).string();
}

std::optional<std::uint64_t> step_of(const std::string& path) {
  return parse_step(fs::path(path).filename().string(), prefix, suffix);
}

std::vector<Found> scan(const std::string& folder) {
  std::vector<Found> found;
  for (const fs::path& path : entries(folder))
    if (const auto step = step_of(path.string())) found.push_back({*step, path.string()});
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.step < b.step; });
  return found;
}

void require_folder(const std::string& folder) {
  std::error_code error;
  const bool found = fs::is_directory(folder, error);
  if (!found) fail("read the folder", folder, error ? error.message() : "not a folder");
  entries(folder);
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("make the folder", folder, error.message());
}

void require_free_space(const std::string& folder, std::uint64_t needed) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) fail("ask for the free space of", folder, error.message());
  if (space.available < needed)
    throw EnvironmentError("the checkpoint needs " + std::to_string(needed) +
                           " bytes and the file system of " + folder + " has " +
                           std::to_string(space.available) +
                           " bytes free: make room, or set checkpoint.dir to another folder");
}

void probe_space(const std::string& path, std::uint64_t bytes) {
  with_descriptor("write", path, O_WRONLY | O_CREAT | O_TRUNC, {},
                  [&](int descriptor) { return write_zeros(descriptor, bytes); });
}

void reserve_space(const std::string& path) {
  const auto size = static_cast<off_t>(fs::file_size(path));
  with_descriptor("reserve space for", path, O_RDWR, {EOPNOTSUPP, ENOSYS}, [&](int descriptor) {
    int status = -1;
    do status = ::fallocate(descriptor, 0, 0, size);
    while (status != 0 && errno == EINTR);
    return status;
  });
}

std::string free_space_text(const std::string& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  return error ? "" : "; " + std::to_string(space.available) + " bytes are free in " + folder;
}

void append_digest(const std::string& path) {
  const std::string digest = digest_of(content_of(path));
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << digest_mark << digest << std::flush;
  if (!file) fail("write", path, std::strerror(errno));
}

void require_digest(const std::string& path) {
  const std::size_t size = digest_mark.size() + 16;
  std::string end(size, '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(-static_cast<std::streamoff>(size), std::ios::end);
  if (!file.read(end.data(), static_cast<std::streamsize>(size)) || !end.starts_with(digest_mark)) return;
  std::string content = content_of(path);
  content.resize(content.size() - size);
  if (end.substr(digest_mark.size()) != digest_of(content))
    throw EnvironmentError(path + " is damaged: its bytes do not have the digest at its end");
}

void synchronise(const std::string& path) {
  with_descriptor("fsync", path, O_RDONLY, {}, [](int descriptor) { return ::fsync(descriptor); });
}

void commit(const std::string& partial, const std::string& whole, bool sync) {
  if (sync) synchronise(partial);
  rename(partial, whole);
  if (sync) synchronise(folder_of(whole));
}

std::string set_aside(const std::string& path) {
  const std::string shards = shards_path(path);
  std::string mark = abandoned_suffix;
  for (int number = 2; is_there(path + mark) || is_there(shards + mark); ++number)
    mark = std::string(abandoned_suffix) + "." + std::to_string(number);
  rename(path, path + mark);
  if (is_there(shards)) rename(shards, shards + mark);
  return path + mark;
}

void remove_shards(const std::string& path) {
  remove(shards_path(path));
}

void remove_checkpoint(const std::string& path) {
  remove(path);
  if (!is_there(shards_path(path))) return;
  synchronise(folder_of(path));
  remove_shards(path);
}

std::uint64_t bytes_below(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const std::uintmax_t bytes = fs::file_size(path, error);
    return error ? 0 : bytes;
  }
  std::uint64_t bytes = 0;
  for (const fs::path& file : entries(path)) bytes += bytes_below(file.string());
  return bytes;
}

std::uint64_t checkpoint_bytes(const std::string& path) {
  return bytes_below(path) + bytes_below(shards_path(path));
}

std::vector<std::string> leftovers(const std::string& folder) {
  std::vector<std::string> found;
  for (const fs::path& path : entries(folder)) {
    const std::string name = path.filename().string();
    const bool orphan =
        parse_step(name, prefix, shards_suffix) && !is_there(fs::path(path).replace_extension(suffix));
    if (orphan || parse_step(name, partial_prefix, partial_suffix) ||
        parse_step(name, partial_prefix, partial_shards_suffix))
      found.push_back(path.string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> abandoned(const std::string& folder) {
  std::vector<std::string> found;
  for (const fs::path& path : entries(folder))
    if (path.filename().string().find(std::string(suffix) + abandoned_suffix) != std::string::npos)
      found.push_back(path.string());
  std::sort(found.begin(), found.end());
  return found;
}

std::string abandoned_shards(const std::string& path) {
  const std::string mark = std::string(suffix) + abandoned_suffix;
  return std::string(path).replace(path.rfind(mark), suffix.size(), shards_suffix);
}

void remove_abandoned(const std::string& path) {
  remove(path);
  remove(abandoned_shards(path));
}

void remove_leftovers(const std::string& folder) {
  for (const std::string& path : leftovers(folder)) remove(path);
}

void prune(const std::string& folder, std::uint64_t step, std::size_t keep) {
  if (keep == 0) return;
  std::vector<Found> others = scan(folder);
  std::erase_if(others, [&](const Found& found) { return found.step == step; });
  for (std::size_t i = 0; i + (keep - 1) < others.size(); ++i) remove_checkpoint(others[i].path);
}

}  // namespace shardmark::checkpoint
