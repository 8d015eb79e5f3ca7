// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/hdf5.hpp"

/// All of a checkpoint but the tensors' data: one rank writes and reads it, and tells the others.
namespace shardmark::checkpoint {

using Values = std::map<std::string, Value>;

/// "/model/transformer.wte.weight"
std::string dataset_path(const Tensor& tensor);

/// Creates a file with every dataset of `contents`, the tensors' data left undefined. On one rank.
void create_file(const std::string& path, const Contents& contents);

/// Opens a checkpoint for reading; throws EnvironmentError where the file is not one of format_version.
/// On one rank.
File open_checkpoint(const std::string& path);

/// The scalars below "/state" or "/run".
Values read_values(const File& file, const std::string& group);

/// Throws DeckError that names datasets under /model and /optimizer that are missing, extra or of another
/// dtype or shape than `tensors`.
void require_same_tensors(const File& file, const std::vector<Tensor>& tensors);

/// Stored fingerprints, one a tensor.
std::vector<std::uint64_t> read_fingerprints(const File& file, const std::vector<Tensor>& tensors);

/// Gives all ranks the values of rank 0. Collective.
void broadcast_values(const Communicator& comm, Values& values);

}  // namespace shardmark::checkpoint
