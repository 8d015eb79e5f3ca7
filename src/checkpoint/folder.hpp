// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Names, space and order of the files of a checkpoint folder. Each function acts for one rank alone and
/// throws EnvironmentError that names the path.
namespace shardmark::checkpoint {

/// "<folder>/.step_00000100.h5.partial": a save that is not whole yet, or never was.
std::string partial_path(const std::string& folder, std::uint64_t step);

/// "<folder>/.step_00000100.shards.partial"
std::string partial_shards_path(const std::string& folder, std::uint64_t step);

/// "<folder>/step_00000100.shards" of "<folder>/step_00000100.h5"
std::string shards_path(const std::string& checkpoint);

/// The step in a checkpoint's file name; nothing for any other name.
std::optional<std::uint64_t> step_of(const std::string& path);

/// Throws where `folder` is no folder that can be read.
void require_folder(const std::string& folder);

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

/// Adds a mark and a digest of all bytes before it to a file. HDF5 ignores what follows its own data; it
/// checks most metadata, but not its lists of virtual datasets' sources, and 1.10 crashes on some that are
/// damaged.
void append_digest(const std::string& path);

/// Throws where a file ends in such a mark and a digest that is not that of the bytes before it.
void require_digest(const std::string& path);

/// fsync of a file or folder.
void synchronise(const std::string& path);

/// Renames `partial`, a file or a folder, to `whole`, for good: with `sync`, fsync of it before and of the
/// folder that holds it after.
void commit(const std::string& partial, const std::string& whole, bool sync);

/// Removes a checkpoint: first the file, for good, then the folder of its rank files, where it has one.
void remove_checkpoint(const std::string& path);

/// Removes the folder of rank files that goes with the checkpoint's name, where there is one.
void remove_shards(const std::string& path);

/// Size of a file, or of the files in a folder; what can't be read counts as 0.
std::uint64_t bytes_below(const std::string& path);
/// Size of a checkpoint with its rank files.
std::uint64_t checkpoint_bytes(const std::string& path);

/// What saves that failed or were killed have left: partial files and folders, and folders of rank files
/// without an index.
std::vector<std::string> leftovers(const std::string& folder);
/// Files, not folders of rank files, that set_aside() has renamed.
std::vector<std::string> abandoned(const std::string& folder);
/// The folder of rank files that goes with one of them.
std::string abandoned_shards(const std::string& path);
void remove_abandoned(const std::string& path);
void remove_leftovers(const std::string& folder);

/// Removes all checkpoints but that of `step` and the newest others, `keep` in all (0: keeps all).
void prune(const std::string& folder, std::uint64_t step, std::size_t keep);

}  // namespace shardmark::checkpoint
