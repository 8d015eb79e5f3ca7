// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shards.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <tuple>
#include <type_traits>

#include "checkpoint/folder.hpp"
#include "checkpoint/transfer.hpp"
#include "core/fingerprint.hpp"

namespace shardmark::checkpoint {
namespace {

namespace fs = std::filesystem;

/// As the index names it: relative to its own folder, so that both can be moved together.
std::string relative_name(std::uint64_t step, std::uint64_t rank) {
  return shards_name(step) + "/" + rank_file_name(rank);
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
void broadcast(const Communicator& comm, std::vector<T>& values) {
  const std::string bytes = comm.host_broadcast(comm.rank() == 0 ? bytes_of(values) : "", 0);
  values.resize(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
}

/// Elements of each tensor in each file, by (tensor, file).
std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> sizes_of(
    const std::vector<Source>& sources) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> sizes;
  for (const Source& source : sources) sizes[{source.tensor, source.file}] += source.end - source.begin;
  return sizes;
}

/// Adds a block to the sources, to the last one where it goes on there.
void append(std::vector<Source>& sources, const Source& next) {
  if (!sources.empty()) {
    Source& last = sources.back();
    if (last.tensor == next.tensor && last.file == next.file && last.end == next.begin &&
        last.offset + (last.end - last.begin) == next.offset) {
      last.end = next.end;
      return;
    }
  }
  sources.push_back(next);
}

}  // namespace

std::string rank_file_name(std::uint64_t rank) {
  const std::string number = std::to_string(rank);
  return "rank_" + std::string(5 - std::min<std::size_t>(5, number.size()), '0') + number + ".h5";
}

std::string Index::shard_path(std::uint64_t rank) const {
  return (fs::path(path).parent_path() / relative_name(step, rank)).string();
}

Shard make_shard(const Contents& contents, std::uint64_t rank,
                 const std::function<std::uint64_t(const Piece&)>& terms) {
  std::vector<Piece> pieces;
  for (const Piece& piece : contents.pieces) {
    require_inside(contents.tensors.at(piece.tensor), piece);
    if (piece.begin < piece.end) pieces.push_back(piece);
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tie(a.tensor, a.begin) < std::tie(b.tensor, b.begin);
  });
  Shard shard;
  auto& tensors = shard.contents.tensors;
  std::size_t last = contents.tensors.size();
  for (const Piece& piece : pieces) {
    if (piece.tensor != last) {
      tensors.push_back(contents.tensors[piece.tensor]);
      tensors.back().shape = {0};
      tensors.back().fingerprint = 0;
      last = piece.tensor;
    }
    std::size_t& size = tensors.back().shape[0];
    const std::size_t offset = size;
    size += piece.end - piece.begin;
    tensors.back().fingerprint += terms(piece);
    shard.contents.pieces.push_back({tensors.size() - 1, offset, size, piece.data});
    append(shard.sources, {piece.tensor, piece.begin, piece.end, rank, offset});
  }
  for (const Tensor& tensor : tensors) shard.fingerprint = mix64(shard.fingerprint ^ tensor.fingerprint);
  return shard;
}

Groups shard_groups(const Shard& shard, std::uint64_t rank, std::uint64_t ranks, std::uint64_t step) {
  return {{"/shard", {{"rank", rank}, {"ranks", ranks}, {"step", step}, {"fingerprint", shard.fingerprint}}}};
}

void sort_and_require_cover(const std::vector<Tensor>& tensors, std::vector<Source>& sources) {
  std::sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) {
    return std::tie(a.tensor, a.begin) < std::tie(b.tensor, b.begin);
  });
  std::vector<std::uint64_t> covered(tensors.size(), 0);
  for (const Source& source : sources) {
    if (source.begin != covered[source.tensor])
      throw EnvironmentError("checkpoint: elements of " + dataset_path(tensors[source.tensor]) + " from " +
                             std::to_string(std::min(source.begin, covered[source.tensor])) +
                             " on are in no piece, or in two");
    covered[source.tensor] = source.end;
  }
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (covered[t] != tensors[t].size())
      throw EnvironmentError("checkpoint: elements of " + dataset_path(tensors[t]) + " from " +
                             std::to_string(covered[t]) + " on are in no piece");
}

void write_index(const std::string& path, const Index& index, const std::vector<Tensor>& tensors,
                 const Groups& groups, const Options& options) {
  const auto sizes = sizes_of(index.sources);
  std::vector<std::vector<Mapped>> mapped(tensors.size());
  std::uint64_t bytes = metadata_bytes(tensors, groups, options) + 64 * index.files.size();
  for (const Source& source : index.sources) {
    const std::string name = relative_name(index.step, source.file);
    const std::uint64_t size = sizes.at({source.tensor, source.file});
    for (Box& box : make_boxes(tensors[source.tensor].shape, source.begin, source.end)) {
      bytes += 256 + name.size() + dataset_path(tensors[source.tensor]).size();
      const std::size_t offset = source.offset + (box.begin - source.begin);
      mapped[source.tensor].push_back({std::move(box), name, offset, size});
    }
  }
  probe_space(path,
              bytes + 8192 * tensors.size());  // HDF5 keeps lists of blocks in heaps of 4096 bytes or more
  File file = create_alone(path, options, true);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    create_virtual_dataset(file, dataset_path(tensors[t]), tensors[t].dtype, tensors[t].shape, mapped[t]);
    write_scalar(file, fingerprint_path(tensors[t]), tensors[t].fingerprint);
  }
  write_groups(file, groups);
  std::vector<std::uint64_t> sizes_of_files, fingerprints;
  for (const ShardFile& shard : index.files) {
    sizes_of_files.push_back(shard.bytes);
    fingerprints.push_back(shard.fingerprint);
  }
  write_array(file, "/shards/bytes", sizes_of_files);
  write_array(file, "/shards/fingerprint", fingerprints);
  write_scalar(file, "/shards/step", index.step);
  file.close();
  append_digest(path);
}

Index read_index(const File& file, const std::vector<Tensor>& tensors) {
  Index index;
  index.path = file.path();
  if (tensors.empty() || read_mapped(file, dataset_path(tensors[0])).empty()) return index;
  const auto bytes = read_array(file, "/shards/bytes"),
             fingerprints = read_array(file, "/shards/fingerprint");
  const Value step = read_scalar(file, "/shards/step");
  if (bytes.size() != fingerprints.size() || !std::holds_alternative<std::uint64_t>(step))
    throw EnvironmentError(file.path() + ": /shards is not that of an index of rank files");
  index.step = std::get<std::uint64_t>(step);
  std::map<std::string, std::uint64_t> ranks;
  for (std::uint64_t rank = 0; rank < bytes.size(); ++rank) {
    index.files.push_back({bytes[rank], fingerprints[rank]});
    ranks[relative_name(index.step, rank)] = rank;
  }
  for (std::uint64_t t = 0; t < tensors.size(); ++t)
    for (const Mapped& block : read_mapped(file, dataset_path(tensors[t]))) {
      const auto rank = ranks.find(block.source);
      if (rank == ranks.end())
        throw EnvironmentError(file.path() + ": " + dataset_path(tensors[t]) + " lies in " + block.source +
                               ", which is none of the index's rank files");
      append(index.sources,
             {t, block.box.begin, block.box.begin + block.box.size, rank->second, block.offset});
    }
  sort_and_require_cover(tensors, index.sources);
  return index;
}

void broadcast_index(const Communicator& comm, Index& index) {
  index.path = comm.host_broadcast(index.path, 0);
  index.step = std::stoull(comm.host_broadcast(std::to_string(index.step), 0));
  broadcast(comm, index.files);
  broadcast(comm, index.sources);
}

void require_shard(const Index& index, std::uint64_t rank) {
  const std::string path = index.shard_path(rank);
  const ShardFile& expected = index.files.at(rank);
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  if (error)
    throw EnvironmentError(path + ", a rank file of " + index.path + ", can't be read: " + error.message());
  if (bytes != expected.bytes)
    throw EnvironmentError(path + " is truncated or damaged: it has " + std::to_string(bytes) +
                           " bytes, and " + index.path + " says " + std::to_string(expected.bytes));
  const File file = open_alone(path);
  const auto number = [&](const char* name) { return read_scalar(file, std::string("/shard/") + name); };
  const auto require = [&](const char* name, std::uint64_t value) {
    if (number(name) != Value(value))
      throw EnvironmentError(path + " is not the rank file that " + index.path +
                             " was written with: /shard/" + name + " is another");
  };
  require("step", index.step);
  require("rank", rank);
  require("ranks", index.files.size());
  require("fingerprint", expected.fingerprint);
}

std::map<std::uint64_t, Contents> parts_by_file(const Index& index, const std::vector<Tensor>& tensors,
                                                const std::vector<Piece>& pieces) {
  std::map<std::uint64_t, Contents> parts;
  for (const Piece& piece : pieces) {
    if (piece.begin == piece.end) continue;
    const Tensor& tensor = tensors.at(piece.tensor);
    require_inside(tensor, piece);
    auto source = std::partition_point(index.sources.begin(), index.sources.end(), [&](const Source& s) {
      return std::tie(s.tensor, s.end) <= std::make_tuple(piece.tensor, piece.begin);
    });
    for (; source != index.sources.end() && source->tensor == piece.tensor && source->begin < piece.end;
         ++source) {
      const std::size_t begin = std::max<std::size_t>(piece.begin, source->begin);
      const std::size_t end = std::min<std::size_t>(piece.end, source->end);
      const std::size_t offset = source->offset + (begin - source->begin);
      Contents& part = parts[source->file];
      if (part.tensors.empty() || dataset_path(part.tensors.back()) != dataset_path(tensor)) {
        part.tensors.push_back(tensor);
        part.tensors.back().shape = {tensor.size()};
      }
      part.pieces.push_back(
          {part.tensors.size() - 1, offset, offset + (end - begin),
           static_cast<std::byte*>(piece.data) + (begin - piece.begin) * size_of(tensor.dtype)});
    }
  }
  return parts;
}

}  // namespace shardmark::checkpoint
