// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/hdf5.hpp"

/// Tensor data between memory and an open file, in calls of at most Options::largest_call bytes. In
/// collective mode all ranks join the same number of calls for each dataset, with nothing where they have
/// less. Every rank's status is compared before the return: all throw the same EnvironmentError. All
/// functions are collective.
namespace shardmark::checkpoint {

/// Throws EnvironmentError where the piece is outside of its tensor.
void require_inside(const Tensor& tensor, const Piece& piece);

void write_pieces(const Communicator& comm, const File& file, const Contents& contents,
                  const Options& options);
void read_pieces(const Communicator& comm, const File& file, const Contents& contents,
                 const Options& options);

/// The same for this rank alone, in independent mode. An error is this rank's.
void write_alone(const File& file, const Contents& contents, const Options& options);
void read_alone(const File& file, const Contents& contents, const Options& options);

/// Elements [begin, end) of a tensor in `file`.
void read_range(const File& file, const Tensor& tensor, std::size_t begin, std::size_t end, void* data);
void write_range(const File& file, const Tensor& tensor, std::size_t begin, std::size_t end, void* data);

/// The terms of elements [begin, end) in a tensor's fingerprint; `data` holds element `begin`.
std::uint64_t sum_terms(Dtype dtype, const void* data, std::size_t begin, std::size_t end);

/// Throws EnvironmentError, everywhere alike, that names the tensors whose fingerprint is not the one found.
void require_fingerprints(const std::string& path, const std::vector<Tensor>& tensors,
                          const std::vector<std::uint64_t>& found);

/// The fingerprints of the tensors, each rank adding its pieces: as they are in memory, or as `file` has them
/// now, read through a small buffer. [Note: Fingerprint]
std::vector<std::uint64_t> fingerprints_in_memory(const Communicator& comm, const Contents& contents);
std::vector<std::uint64_t> fingerprints_in_file(const Communicator& comm, const File& file,
                                                const Contents& contents);

}  // namespace shardmark::checkpoint
