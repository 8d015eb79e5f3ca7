// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"

/// [Note: Rank files] A rank file holds, of each tensor that its rank has pieces of, one dataset
/// /<group>/<name> of one dimension: the pieces in order, without gaps; the fingerprints of these parts,
/// whose sum over the files is the tensor's, under /fingerprint; and what tells it from other files under
/// /shard: rank, ranks, step, and a fingerprint over all parts. The index maps pieces to the tensor's shape
/// with up to three blocks a piece of a matrix, and keeps sizes and fingerprints of the rank files as arrays:
/// /shards/bytes, /shards/fingerprint. HDF5 gives fill values, here NaN, where a source of a virtual dataset
/// is missing; so each file is compared with the index before anything is read. HDF5 1.10 cannot read virtual
/// datasets through MPI-IO; this program reads the rank files themselves.
namespace shardmark::checkpoint {

/// Elements [begin, end) of a tensor lie in a rank file from element `offset` of its dataset on.
struct Source {
  std::uint64_t tensor, begin, end, file, offset;
};

/// What one rank file holds.
struct Shard {
  Contents contents;  ///< one-dimensional tensors, and the pieces in them
  std::vector<Source> sources;
  std::uint64_t fingerprint = 0;
};

/// The shard with the pieces of `contents` as rank `rank`'s; terms(piece) are a piece's in the fingerprint of
/// its tensor.
Shard make_shard(const Contents& contents, std::uint64_t rank,
                 const std::function<std::uint64_t(const Piece&)>& terms);

/// /shard of a rank file.
Groups shard_groups(const Shard& shard, std::uint64_t rank, std::uint64_t ranks, std::uint64_t step);

/// "rank_00002.h5"
std::string rank_file_name(std::uint64_t rank);

struct ShardFile {
  std::uint64_t bytes, fingerprint;
};

/// All that an index tells.
struct Index {
  std::string path;  ///< of the index
  std::uint64_t step = 0;
  std::vector<ShardFile> files;
  std::vector<Source> sources;  ///< by tensor and place; adjacent blocks are one

  std::string shard_path(std::uint64_t rank) const;
};

/// Sorts the sources by tensor and place. Throws where they do not cover each tensor exactly once.
void sort_and_require_cover(const std::vector<Tensor>& tensors, std::vector<Source>& sources);

/// Writes the index file `path`. On one rank.
void write_index(const std::string& path, const Index& index, const std::vector<Tensor>& tensors,
                 const Groups& groups, const Options& options);

/// The index over these tensors; one without files where their data lie in `file` itself. On one rank.
Index read_index(const File& file, const std::vector<Tensor>& tensors);

/// Gives all ranks the index of rank 0. Collective.
void broadcast_index(const Communicator& comm, Index& index);

/// Throws EnvironmentError that names the rank file where it is missing, not whole, or not the index's.
void require_shard(const Index& index, std::uint64_t rank);

/// By rank file, the parts of the pieces that lie there, as pieces of its datasets.
std::map<std::uint64_t, Contents> parts_by_file(const Index& index, const std::vector<Tensor>& tensors,
                                                const std::vector<Piece>& pieces);

}  // namespace shardmark::checkpoint
