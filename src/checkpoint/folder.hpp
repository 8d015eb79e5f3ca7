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

/// Makes the folder and those above it where they do not exist.
void make_folder(const std::string& folder);

/// Throws where the file system of `folder` has fewer than `needed` bytes for us.
void require_free_space(const std::string& folder, std::uint64_t needed);

/// Creates the file and writes that many bytes to the disk, so that a full disk or a quota is an error here.
/// The bytes mean nothing.
void probe_space(const std::string& path, std::uint64_t bytes);

/// Gives a file all the blocks of its size now, where the file system can; a full disk is an error.
void reserve_space(const std::string& path);

/// "; 4096 bytes are free in <folder>", for an error message that has no better reason.
std::string free_space_text(const std::string& folder);

/// Makes `partial` the checkpoint `whole`, for good: fsync of the file, rename, fsync of the folder.
void commit(const std::string& partial, const std::string& whole);

/// Removes what earlier saves that failed or were killed have left.
void remove_partial_files(const std::string& folder);

/// Removes all checkpoints but that of `step` and the newest others, `keep` in all (0: keeps all).
void prune(const std::string& folder, std::uint64_t step, std::size_t keep);

}  // namespace shardmark::checkpoint
