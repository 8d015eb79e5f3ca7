// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format.hpp"

/// What people do with checkpoints by hand. For one process alone; memory does not grow with the checkpoint.
namespace shardmark::checkpoint {

/// damaged: something is missing or not as it was written; partial: a leftover of a save that did not end;
/// abandoned: set aside by a run that resumed from an older one.
enum class Condition { complete, partial, damaged, abandoned };
inline constexpr std::array condition_names = {"complete", "partial", "damaged", "abandoned"};

/// A line of a listing. What can't be read is empty.
struct Summary {
  std::string path;
  std::optional<std::uint64_t> step;
  std::uint64_t bytes = 0;  ///< of all files
  std::optional<Layout> layout;
  std::string ranks, strategy;  ///< that wrote it
  Condition condition = Condition::complete;
  std::string reason;  ///< why it is not complete
};

/// The checkpoints of a folder by step, then leftovers. Looks at sizes, /state and the heads of rank files,
/// and does not read the tensors.
std::vector<Summary> list_folder(const std::string& folder);

/// Names, shapes and fingerprints, /state and /run, without the tensors' data.
Contents describe_file(const std::string& path);

/// Recomputes every fingerprint and the digest of /state. Returns a sentence for each thing that is not as it
/// was written; it names the file and the dataset. Throws EnvironmentError where `path` can't be read at all,
/// or is not a checkpoint of this format.
std::vector<std::string> find_damage(const std::string& path);

/// How a tensor differs between two checkpoints.
struct Difference {
  std::string dataset;
  std::string note;         ///< "only in A", or dtypes and shapes where they differ; else empty
  std::uint64_t size = 0;   ///< elements
  std::uint64_t count = 0;  ///< elements that differ by more than the tolerance; NaN equals NaN only
  double largest = 0;       ///< absolute difference
};

/// One entry a tensor of either.
std::vector<Difference> compare(const std::string& a, const std::string& b, double tolerance);

/// Writes the checkpoint `path` into `folder` in another layout, under the name of its step; `ranks` rank
/// files, 0: as many as ranks wrote it. Returns the path. Throws EnvironmentError where the input is damaged,
/// DeckError where the folder has that step.
std::string convert(const std::string& path, const std::string& folder, const Options& options,
                    std::uint64_t ranks);

/// Removes all checkpoints of a folder, abandoned ones too, but the newest `keep`, which is positive, and the
/// newest one that find_damage finds nothing in. Returns the paths of those removed.
std::vector<std::string> prune_folder(const std::string& folder, std::size_t keep);

}  // namespace shardmark::checkpoint
