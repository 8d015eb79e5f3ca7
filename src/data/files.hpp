// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardmark {

/// A file's content: mapped, so that the ranks of a node share its pages, or read where it is small. The file
/// must not shrink while a run uses it.
struct FileContent {
  std::string path;
  std::shared_ptr<const std::uint8_t> bytes;
  std::size_t size = 0;
};

/// Throws EnvironmentError that names the file and the system's reason.
FileContent open_file(const std::string& path);

/// What a folder in data.path means.
enum class Folders { walk, refuse };

/// The regular files that data.path names (files, folders, shell patterns), sorted by path, each once.
/// A folder is walked with its subfolders, links to folders left aside. Neither a walk nor a pattern takes
/// hidden files, build folders
/// ("build", "build-…", or any with a CMakeCache.txt) and what this program writes (*.h5, *.partial,
/// metrics.jsonl, report.json): the data of a run must not change because it runs. A file named outright is
/// always taken. Throws DeckError that names an entry without a match.
std::vector<std::string> find_files(const std::vector<std::string>& entries, Folders folders);

}  // namespace shardmark
