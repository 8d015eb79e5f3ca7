// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

namespace shardmark::checkpoint {
namespace {

std::string fingerprint_path(const Tensor& tensor) {
  return "/fingerprint" + dataset_path(tensor);
}

/// "a, b, c and 7 more"
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

/// A text with its length before it, so that it may hold any byte.
void put(std::string& packed, std::string_view text) {
  const std::uint64_t size = text.size();
  packed.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
}

std::string_view take(std::string_view& packed) {
  std::uint64_t size = 0;
  std::memcpy(&size, packed.data(), sizeof size);
  const std::string_view text = packed.substr(sizeof size, size);
  packed.remove_prefix(sizeof size + size);
  return text;
}

template <class T>
T number_from(std::string_view bytes) {
  T number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::string pack(const Values& values) {
  std::string packed;
  for (const auto& [key, value] : values) {
    put(packed, key);
    put(packed, std::to_string(value.index()));
    if (const auto* text = std::get_if<std::string>(&value)) put(packed, *text);
    const auto put_number = [&](const auto* number) {
      if (number) put(packed, {reinterpret_cast<const char*>(number), sizeof *number});
    };
    put_number(std::get_if<std::int64_t>(&value));
    put_number(std::get_if<std::uint64_t>(&value));
    put_number(std::get_if<double>(&value));
  }
  return packed;
}

Values unpack(std::string_view packed) {
  Values values;
  while (!packed.empty()) {
    Value& value = values[std::string(take(packed))];
    const char kind = take(packed).front();
    const std::string_view bytes = take(packed);
    if (kind == '0') value = number_from<std::int64_t>(bytes);
    if (kind == '1') value = number_from<std::uint64_t>(bytes);
    if (kind == '2') value = number_from<double>(bytes);
    if (kind == '3') value = std::string(bytes);
  }
  return values;
}

}  // namespace

std::string dataset_path(const Tensor& tensor) {
  return "/" + tensor.group + "/" + tensor.name;
}

void create_file(const std::string& path, const Contents& contents) {
  File file = create_alone(path);
  for (const Tensor& tensor : contents.tensors) {
    create_dataset(file, dataset_path(tensor), file_type(tensor.dtype), tensor.shape);
    write_scalar(file, fingerprint_path(tensor), tensor.fingerprint);
  }
  for (const auto& [key, value] : contents.state) write_scalar(file, "/state/" + key, value);
  for (const auto& [key, value] : contents.run) write_scalar(file, "/run/" + key, value);
  if (!contents.state.contains("format_version")) write_scalar(file, "/state/format_version", format_version);
  file.close();
}

File open_checkpoint(const std::string& path) {
  File file = open_alone(path);
  const auto names = dataset_names(file, "/state");
  if (std::find(names.begin(), names.end(), "format_version") == names.end())
    throw EnvironmentError(path + " is not a Shardmark checkpoint: it has no /state/format_version");
  const Value version = read_scalar(file, "/state/format_version");
  if (version != Value(format_version)) {
    const auto* number = std::get_if<std::int64_t>(&version);
    throw EnvironmentError(path + " has format version " +
                           (number ? std::to_string(*number) : "of another type") +
                           "; this program reads version " + std::to_string(format_version));
  }
  return file;
}

Values read_values(const File& file, const std::string& group) {
  Values values;
  for (const std::string& key : dataset_names(file, group))
    values[key] = read_scalar(file, group + "/" + key);
  return values;
}

void require_same_tensors(const File& file, const std::vector<Tensor>& tensors) {
  std::set<std::string> stored;
  for (const std::string group : {"/model", "/optimizer"})
    for (const std::string& name : dataset_names(file, group)) stored.insert(group + "/" + name);
  std::vector<std::string> missing, different;
  for (const Tensor& tensor : tensors) {
    const std::string path = dataset_path(tensor);
    if (stored.erase(path) == 0) {
      missing.push_back(path);
      continue;
    }
    const std::string found = describe(file, open_dataset(file, path));
    const std::string expected = describe(tensor.dtype, tensor.shape);
    if (found != expected) different.push_back(path + " is " + found + " and not " + expected);
  }
  std::string problems;
  if (!missing.empty()) problems += "; missing: " + some_of(missing);
  if (!stored.empty()) problems += "; extra: " + some_of({stored.begin(), stored.end()});
  if (!different.empty()) problems += "; different: " + some_of(different);
  if (!problems.empty())
    throw DeckError(file.path() + " does not fit this deck's model and optimizer" + problems);
}

std::vector<std::uint64_t> read_fingerprints(const File& file, const std::vector<Tensor>& tensors) {
  std::vector<std::uint64_t> fingerprints;
  for (const Tensor& tensor : tensors) {
    const Value value = read_scalar(file, fingerprint_path(tensor));
    const auto* fingerprint = std::get_if<std::uint64_t>(&value);
    if (!fingerprint)
      throw EnvironmentError(file.path() + ": " + fingerprint_path(tensor) + " is not uint64");
    fingerprints.push_back(*fingerprint);
  }
  return fingerprints;
}

void broadcast_values(const Communicator& comm, Values& values) {
  values = unpack(comm.host_broadcast(comm.rank() == 0 ? pack(values) : "", 0));
}

}  // namespace shardmark::checkpoint
