// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// Names, space and order of the files of a checkpoint folder. Each function acts for one rank alone and
/// throws EnvironmentError that names the path.
namespace shardmark::checkpoint {

/// "<folder>/.step_00000100.h5.partial": a save that is not whole yet, or never was.
std::string partial_path(const std::string& folder, std::uint64_t step);

/// Throws where the file system of `folder` has fewer than `needed` bytes for us.
void require_free_space(const std::string& folder, std::uint64_t needed);

/// Makes `partial` the checkpoint `whole`, for good: fsync of the file, rename, fsync of the folder.
void commit(const std::string& partial, const std::string& whole);

/// Removes leftover partial files, and all checkpoints but that of `step` and the newest others, `keep` in
/// all (0: keeps all).
void prune(const std::string& folder, std::uint64_t step, std::size_t keep);

}  // namespace shardmark::checkpoint
