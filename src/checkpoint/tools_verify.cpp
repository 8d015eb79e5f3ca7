// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "checkpoint/folder.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/tools.hpp"
#include "checkpoint/transfer.hpp"

namespace shardmark::checkpoint {
namespace {

/// What was found so far.
struct Findings {
  std::vector<std::string> damage;
  std::vector<std::uint64_t> sums;   ///< fingerprint of each tensor
  std::set<std::uint64_t> reported;  ///< tensors whose sum says nothing more

  template <class Action>
  bool note_errors(Action action) {
    try {
      action();
      return true;
    } catch (const Error& error) {
      damage.push_back(error.what());
      return false;
    }
  }
};

std::string wrong_fingerprint(const std::string& path, const Tensor& tensor) {
  return path + " is damaged: wrong fingerprint of " + dataset_path(tensor);
}

/// Terms of the source's elements, which begin at `offset` of the tensor `stored` in `file`.
std::uint64_t terms_in(const File& file, const Tensor& stored, const Source& source,
                       std::vector<std::byte>& buffer) {
  std::uint64_t sum = 0;
  for_buffers(stored.dtype, source.begin, source.end, [&](std::size_t begin, std::size_t end) {
    const std::size_t offset = source.offset + (begin - source.begin);
    read_range(file, stored, offset, offset + (end - begin), buffer.data());
    sum += sum_terms(stored.dtype, buffer.data(), begin, end);
  });
  return sum;
}

/// Compares the parts of tensors in one rank file with the fingerprints that it keeps.
void check_shard(const Index& index, std::uint64_t rank, const std::vector<Source>& sources,
                 const std::vector<Tensor>& tensors, Findings& findings) {
  require_shard(index, rank);
  const File file = open_alone(index.shard_path(rank));
  std::vector<std::byte> buffer(buffer_bytes);
  std::map<std::uint64_t, std::uint64_t> parts;
  for (const Source& source : sources) {
    Tensor flat = tensors[source.tensor];
    flat.shape = {flat.size()};
    parts[source.tensor] += terms_in(file, flat, source, buffer);
  }
  for (const auto& [t, sum] : parts) {
    findings.sums[t] += sum;
    if (read_fingerprints(file, {tensors[t]})[0] == sum) continue;
    findings.damage.push_back(wrong_fingerprint(file.path(), tensors[t]));
    findings.reported.insert(t);
  }
}

void check_shards(const Index& index, const std::vector<Tensor>& tensors, Findings& findings) {
  std::vector<std::vector<Source>> by_file(index.files.size());
  for (const Source& source : index.sources) by_file[source.file].push_back(source);
  for (std::uint64_t rank = 0; rank < by_file.size(); ++rank) {
    if (findings.note_errors([&] { check_shard(index, rank, by_file[rank], tensors, findings); })) continue;
    for (const Source& source : by_file[rank]) findings.reported.insert(source.tensor);
  }
}

void check_shared_file(const File& file, const std::vector<Tensor>& tensors, Findings& findings) {
  std::vector<std::byte> buffer(buffer_bytes);
  for (std::uint64_t t = 0; t < tensors.size(); ++t)
    if (!findings.note_errors([&] {
          findings.sums[t] = terms_in(file, tensors[t], {t, 0, tensors[t].size(), 0, 0}, buffer);
        }))
      findings.reported.insert(t);
}

}  // namespace

std::vector<std::string> find_damage(const std::string& path) {
  require_hdf5(path);
  Findings findings;
  std::optional<File> file;
  const auto open = [&] {
    require_digest(path);
    file.emplace(open_alone(path));
  };
  if (!findings.note_errors(open)) return findings.damage;
  std::string problem;
  if (!findings.note_errors([&] { problem = format_problem(*file); })) return findings.damage;
  if (!problem.empty()) throw EnvironmentError(problem);
  findings.note_errors([&] { require_state(path, read_values(*file, "/state")); });
  findings.note_errors([&] { read_values(*file, "/run"); });
  findings.note_errors([&] {
    const std::vector<Tensor> tensors = stored_tensors(*file);
    findings.sums.resize(tensors.size(), 0);
    const Index index = read_index(*file, tensors);
    if (index.files.empty()) {
      check_shared_file(*file, tensors, findings);
    } else {
      check_shards(index, tensors, findings);
    }
    for (std::uint64_t t = 0; t < tensors.size(); ++t)
      if (findings.sums[t] != tensors[t].fingerprint && !findings.reported.contains(t))
        findings.damage.push_back(wrong_fingerprint(path, tensors[t]));
  });
  return findings.damage;
}

}  // namespace shardmark::checkpoint
