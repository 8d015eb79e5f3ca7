// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools.hpp"

#include <algorithm>

#include "checkpoint/folder.hpp"
#include "checkpoint/shards.hpp"

namespace shardmark::checkpoint {
namespace {

std::string text_of(const Values& values, const std::string& key) {
  const auto value = values.find(key);
  if (value == values.end()) return "";
  if (const auto* text = std::get_if<std::string>(&value->second)) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&value->second)) return std::to_string(*number);
  return "";
}

/// Fills what the file tells; throws where it is not as it was written.
void summarise(const std::string& path, Summary& summary) {
  const File file = open_checkpoint(path);
  const Values run = read_values(file, "/run");
  summary.ranks = text_of(run, "ranks");
  summary.strategy = text_of(run, "strategy");
  const Index index = read_index(file, stored_tensors(file));
  summary.layout = index.files.empty() ? Layout::shared_file : Layout::file_per_rank;
  for (std::uint64_t rank = 0; rank < index.files.size(); ++rank) require_shard(index, rank);
  require_state(path, read_values(file, "/state"));
}

}  // namespace

std::vector<Summary> list_folder(const std::string& folder) {
  require_folder(folder);
  std::vector<Summary> list;
  for (const Found& found : scan(folder)) {
    Summary summary;
    summary.path = found.path;
    summary.step = found.step;
    summary.bytes = checkpoint_bytes(found.path);
    try {
      summarise(found.path, summary);
    } catch (const Error& error) {
      summary.condition = Condition::damaged;
      summary.reason = error.what();
    }
    list.push_back(summary);
  }
  const auto add = [&](const std::string& path, std::uint64_t bytes, Condition condition,
                       const char* reason) {
    Summary summary;
    summary.path = path;
    summary.bytes = bytes;
    summary.condition = condition;
    summary.reason = path + reason;
    list.push_back(summary);
  };
  for (const std::string& path : leftovers(folder))
    add(path, bytes_below(path), Condition::partial,
        " is left from a save that did not end; the next save removes it");
  for (const std::string& path : abandoned(folder))
    add(path, bytes_below(path) + bytes_below(abandoned_shards(path)), Condition::abandoned,
        " was set aside by a run that resumed from an older step; ckpt prune removes it");
  return list;
}

Contents describe_file(const std::string& path) {
  const File file = open_checkpoint(path);
  return {stored_tensors(file), {}, read_values(file, "/state"), read_values(file, "/run")};
}

std::vector<std::string> prune_folder(const std::string& folder, std::size_t keep) {
  require_folder(folder);
  std::vector<Found> found = scan(folder);
  std::reverse(found.begin(), found.end());
  const auto whole = [](const Found& checkpoint) {
    try {
      return find_damage(checkpoint.path).empty();
    } catch (const Error&) {
      return false;
    }
  };
  const auto newest_whole = std::find_if(found.begin(), found.end(), whole);
  std::vector<std::string> removed;
  for (auto checkpoint = found.begin(); checkpoint != found.end(); ++checkpoint) {
    if (checkpoint - found.begin() < static_cast<std::ptrdiff_t>(keep) || checkpoint == newest_whole)
      continue;
    remove_checkpoint(checkpoint->path);
    removed.push_back(checkpoint->path);
  }
  for (const std::string& path : abandoned(folder)) {
    remove_abandoned(path);
    removed.push_back(path);
  }
  return removed;
}

}  // namespace shardmark::checkpoint
