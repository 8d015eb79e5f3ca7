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

/// "/fingerprint/model/transformer.wte.weight"
std::string fingerprint_path(const Tensor& tensor);

/// Scalars by the group that holds them: "/state", "/run", …
using Groups = std::map<std::string, Values>;

/// /state, which gets format_version, and /run.
Groups groups_of(const Contents& contents);

/// What HDF5 needs beside the tensors' data: at most, by about a factor of two.
std::uint64_t metadata_bytes(const std::vector<Tensor>& tensors, const Groups& groups,
                             const Options& options);
std::uint64_t data_bytes(const std::vector<Tensor>& tensors);

/// Creates a file with every dataset, the tensors' data left undefined. On one rank.
void create_file(const std::string& path, const std::vector<Tensor>& tensors, const Groups& groups,
                 const Options& options);
void write_groups(const File& file, const Groups& groups);

/// Why the file is not a checkpoint of format_version; empty where it is one.
std::string format_problem(const File& file);

/// Throws EnvironmentError where /state does not have the digest that it keeps.
void require_state(const std::string& path, const Values& state);

/// Opens a checkpoint for reading; throws EnvironmentError where the file is not one of format_version.
/// On one rank.
File open_checkpoint(const std::string& path);

/// The tensors that a checkpoint has, with their fingerprints, sorted by group and name.
std::vector<Tensor> stored_tensors(const File& file);

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
