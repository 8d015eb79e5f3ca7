// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include "checkpoint/folder.hpp"
#include "core/fingerprint.hpp"

namespace shardmark::checkpoint {
namespace {

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

std::string fingerprint_path(const Tensor& tensor) {
  return "/fingerprint" + dataset_path(tensor);
}

Groups groups_of(const Contents& contents) {
  Groups groups = {{"/state", contents.state}, {"/run", contents.run}};
  groups["/state"].try_emplace("format_version", format_version);
  return groups;
}

std::uint64_t data_bytes(const std::vector<Tensor>& tensors) {
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.size() * size_of(tensor.dtype);
  return bytes;
}

std::uint64_t metadata_bytes(const std::vector<Tensor>& tensors, const Groups& groups,
                             const Options& options) {
  std::uint64_t bytes = 65536;
  for (const Tensor& tensor : tensors) {
    bytes += 2048 + 4 * dataset_path(tensor).size();
    if (data_bytes({tensor}) >= options.alignment) bytes += options.alignment;
  }
  for (const auto& [group, values] : groups)
    for (const auto& [key, value] : values) {
      const auto* text = std::get_if<std::string>(&value);
      bytes += 1024 + 4 * key.size() + (text ? text->size() : 0);
    }
  return bytes;
}

void write_groups(const File& file, const Groups& groups) {
  for (const auto& [group, values] : groups)
    for (const auto& [key, value] : values) write_scalar(file, group + "/" + key, value);
}

void create_file(const std::string& path, const std::vector<Tensor>& tensors, const Groups& groups,
                 const Options& options) {
  File file = create_alone(path, options);
  for (const Tensor& tensor : tensors) {
    create_dataset(file, dataset_path(tensor), file_type(tensor.dtype), tensor.shape);
    write_scalar(file, fingerprint_path(tensor), tensor.fingerprint);
  }
  write_groups(file, groups);
  file.close();
}

std::string format_problem(const File& file) {
  const auto names = dataset_names(file, "/state");
  if (std::find(names.begin(), names.end(), "format_version") == names.end())
    return file.path() + " is not a Shardmark checkpoint: it has no /state/format_version";
  const Value version = read_scalar(file, "/state/format_version");
  if (version == Value(format_version)) return "";
  const auto* number = std::get_if<std::int64_t>(&version);
  return file.path() + " has format version " + (number ? std::to_string(*number) : "of another type") +
         "; this program reads version " + std::to_string(format_version);
}

void require_state(const std::string& path, const Values& state) {
  const auto digest = state.find("digest");
  if (digest == state.end()) throw EnvironmentError(path + " is damaged: /state has no digest");
  if (digest->second != Value(digest_of(state)))
    throw EnvironmentError(path + " is damaged: /state does not have the digest that it keeps");
  if (const auto step = state.find("step"); step != state.end())
    if (const auto* number = std::get_if<std::uint64_t>(&step->second)) require_step(path, *number);
}

void require_step(const std::string& path, std::uint64_t step) {
  const auto named = step_of(path);
  if (named && *named != step)
    throw EnvironmentError(fmt::format("{} is named after another step than its own, {}: rename it to {}",
                                       path, step, file_name(step)));
}

File open_checkpoint(const std::string& path) {
  require_hdf5(path);
  require_digest(path);
  File file = open_alone(path);
  if (const std::string problem = format_problem(file); !problem.empty()) throw EnvironmentError(problem);
  return file;
}

std::vector<Tensor> stored_tensors(const File& file) {
  std::vector<Tensor> tensors;
  for (const std::string group : {"model", "optimizer"})
    for (const std::string& name : dataset_names(file, "/" + group)) {
      const std::string path = group + "/" + name;
      const Stored stored = stored_in(file, open_dataset(file, "/" + path));
      if (!stored.dtype || stored.shape.empty())
        throw EnvironmentError(file.path() + ": /" + path +
                               " is not a tensor of float32 or float64 with one dimension or more");
      const std::size_t slash = path.rfind('/');
      tensors.push_back({path.substr(0, slash), path.substr(slash + 1), stored.shape, *stored.dtype, 0});
    }
  const auto fingerprints = read_fingerprints(file, tensors);
  for (std::size_t t = 0; t < tensors.size(); ++t) tensors[t].fingerprint = fingerprints[t];
  return tensors;
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

std::uint64_t digest_of(const Values& state) {
  std::uint64_t digest = 0;
  const auto add = [&](std::uint64_t bits) { digest = mix64(digest ^ bits); };
  for (const auto& [key, value] : state) {
    if (key == "digest" || key == "format_version") continue;
    for (char letter : key) add(static_cast<unsigned char>(letter));
    if (const auto* text = std::get_if<std::string>(&value)) {
      for (char letter : *text) add(static_cast<unsigned char>(letter));
    } else if (const auto* real = std::get_if<double>(&value)) {
      add(fingerprint_term(0, *real));
    } else if (const auto* whole = std::get_if<std::uint64_t>(&value)) {
      add(*whole);
    } else {
      add(static_cast<std::uint64_t>(std::get<std::int64_t>(value)));
    }
  }
  return digest;
}

void broadcast_values(const Communicator& comm, Values& values) {
  values = unpack(comm.host_broadcast(comm.rank() == 0 ? pack(values) : "", 0));
}

}  // namespace shardmark::checkpoint
