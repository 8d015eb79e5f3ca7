// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>
#include <optional>

#include "checkpoint/layouts.hpp"
#include "checkpoint/transfer.hpp"

namespace shardmark::checkpoint {
namespace {

namespace fs = std::filesystem;

/// What rank 0 learns of another rank's file.
struct Written {
  ShardFile file;
  std::uint64_t sources;  ///< their number; they follow
};

std::string pack(const ShardFile& file, const std::vector<Source>& sources) {
  const Written head{file, sources.size()};
  std::string packed(reinterpret_cast<const char*>(&head), sizeof head);
  return packed.append(reinterpret_cast<const char*>(sources.data()), sources.size() * sizeof(Source));
}

void unpack(const std::string& packed, Index& index) {
  Written head;
  std::memcpy(&head, packed.data(), sizeof head);
  index.files.push_back(head.file);
  const std::size_t before = index.sources.size();
  index.sources.resize(before + head.sources);
  if (head.sources > 0)
    std::memcpy(&index.sources[before], packed.data() + sizeof head, head.sources * sizeof(Source));
}

/// All ranks' files in the folder `partial`, whole and on the disk. Returns this rank's file.
/// Probes take the space of all files' metadata at the same time, before any data do: HDF5 may crash where
/// there is none, [Note: Full disk].
ShardFile write_shards(const Communicator& comm, const std::string& partial, std::uint64_t step,
                       const Shard& shard, const Options& options, PhaseClock& clock) {
  const auto rank = static_cast<std::uint64_t>(comm.rank()), ranks = static_cast<std::uint64_t>(comm.size());
  const std::string path = (fs::path(partial) / rank_file_name(rank)).string();
  const Groups groups = shard_groups(shard, rank, ranks, step);
  on_rank_0(comm, [&] { make_folder(partial); });
  comm.agree([&] { probe_space(path, metadata_bytes(shard.contents.tensors, groups, options)); });
  comm.agree([&] { create_file(path, shard.contents.tensors, groups, options); });
  clock.lap(Phase::metadata);
  std::optional<File> file;
  comm.agree([&] { file.emplace(open_alone(path, Access::write, options)); });
  clock.lap(Phase::open);
  comm.agree([&] { write_alone(*file, shard.contents, options); });
  clock.lap(Phase::data);
  ShardFile written{0, shard.fingerprint};
  comm.agree([&] {
    file->close();
    if (options.fsync) synchronise(path);
    written.bytes = fs::file_size(path);
  });
  clock.lap(Phase::sync);
  return written;
}

}  // namespace

// The index is the checkpoint: its rename is the one moment at which the checkpoint comes to be. Until then
// all that is there are leftovers. A checkpoint of the same step whose rank files are in the way is removed
// once all of the new one is on the disk.
void save_file_per_rank(const Communicator& comm, const std::string& path, std::uint64_t step,
                        const Contents& contents, const Options& options, PhaseClock& clock) {
  const std::string folder = fs::path(path).parent_path().string();
  const std::string partial = partial_shards_path(folder, step), partial_index = partial_path(folder, step);
  Shard shard;
  comm.agree([&] {
    shard = make_shard(contents, static_cast<std::uint64_t>(comm.rank()), [&](const Piece& piece) {
      return sum_terms(contents.tensors[piece.tensor].dtype, piece.data, piece.begin, piece.end);
    });
  });
  if (options.check_free_space) {
    const std::uint64_t metadata =
        comm.host_sum(metadata_bytes(shard.contents.tensors, shard_groups(shard, 0, 0, 0), options));
    on_rank_0(comm, [&] {
      require_free_space(folder, data_bytes(contents.tensors) + metadata +
                                     metadata_bytes(contents.tensors, groups_of(contents), options));
    });
  }
  with_free_space_in_errors(comm, folder, [&] {
    const ShardFile own = write_shards(comm, partial, step, shard, options, clock);
    const auto written = comm.host_gather(pack(own, shard.sources));
    on_rank_0(comm, [&] {
      Index index{path, step, {}, {}};
      for (const std::string& packed : written) unpack(packed, index);
      sort_and_require_cover(contents.tensors, index.sources);
      commit_file_per_rank(partial, partial_index, index, contents.tensors, groups_of(contents), options);
    });
    clock.lap(Phase::rename);
  });
}

void commit_file_per_rank(const std::string& partial, const std::string& partial_index, const Index& index,
                          const std::vector<Tensor>& tensors, const Groups& groups, const Options& options) {
  write_index(partial_index, index, tensors, groups, options);
  const std::string shards = shards_path(index.path);
  if (fs::exists(shards)) remove_checkpoint(index.path);
  commit(partial, shards, options.fsync);
  commit(partial_index, index.path, options.fsync);
}

void load_file_per_rank(const Communicator& comm, const Index& index, const Contents& contents,
                        const Options& options, PhaseClock& clock) {
  comm.agree([&] {
    const auto rank = static_cast<std::uint64_t>(comm.rank()),
               ranks = static_cast<std::uint64_t>(comm.size());
    for (std::uint64_t file = rank; file < index.files.size(); file += ranks) require_shard(index, file);
  });
  clock.lap(Phase::open);
  comm.agree([&] {
    for (const auto& [rank, part] : parts_by_file(index, contents.tensors, contents.pieces))
      read_alone(open_alone(index.shard_path(rank), Access::read, options), part, options);
  });
  clock.lap(Phase::data);
}

}  // namespace shardmark::checkpoint
