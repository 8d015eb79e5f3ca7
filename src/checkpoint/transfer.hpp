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

void write_pieces(const Communicator& comm, const File& file, const Contents& contents,
                  const Options& options);
void read_pieces(const Communicator& comm, const File& file, const Contents& contents,
                 const Options& options);

/// The fingerprints of the tensors, each rank adding its pieces: as they are in memory, or as `file` has them
/// now, read through a small buffer. [Note: Fingerprint]
std::vector<std::uint64_t> fingerprints_in_memory(const Communicator& comm, const Contents& contents);
std::vector<std::uint64_t> fingerprints_in_file(const Communicator& comm, const File& file,
                                                const Contents& contents);

}  // namespace shardmark::checkpoint
