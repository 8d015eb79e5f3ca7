// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <optional>

#include "checkpoint/layouts.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/tools.hpp"
#include "checkpoint/transfer.hpp"

namespace shardmark::checkpoint {
namespace {

namespace fs = std::filesystem;

/// The step in the file's name, or else that of /state.
std::uint64_t own_step(const Reader& reader) {
  if (const auto step = step_of(reader.path())) return *step;
  const auto step = reader.state().find("step");
  if (step != reader.state().end())
    if (const auto* number = std::get_if<std::uint64_t>(&step->second)) return *number;
  throw EnvironmentError(reader.path() + ": neither its name nor /state/step tells its step");
}

std::uint64_t ranks_of(const Reader& reader) {
  const auto ranks = reader.run().find("ranks");
  if (ranks == reader.run().end()) return 1;
  const auto* number = std::get_if<std::int64_t>(&ranks->second);
  return number && *number > 0 ? static_cast<std::uint64_t>(*number) : 1;
}

/// The parts that `ranks` ranks write, each an equal part of every tensor, with no data in memory. Throws
/// where the tensors are not what their fingerprints say.
std::vector<Shard> make_parts(Reader& reader, std::uint64_t ranks) {
  const std::vector<Tensor>& tensors = reader.tensors();
  std::vector<std::uint64_t> sums(tensors.size(), 0);
  std::vector<Shard> parts;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    Contents contents{tensors, {}, {}, {}};
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const std::size_t n = tensors[t].size();
      contents.pieces.push_back({t, n * rank / ranks, n * (rank + 1) / ranks, nullptr});
    }
    parts.push_back(make_shard(contents, rank, [&](const Piece& piece) {
      const std::uint64_t terms = reader.terms(piece.tensor, piece.begin, piece.end);
      sums[piece.tensor] += terms;
      return terms;
    }));
  }
  require_fingerprints(reader.path(), tensors, sums);
  return parts;
}

/// Copies elements of tensor t to `stored`, the tensor in `file` that has them from `offset` on.
void copy(Reader& reader, const Source& source, const File& file, const Tensor& stored) {
  std::vector<std::byte> buffer(buffer_bytes);
  for_buffers(stored.dtype, source.begin, source.end, [&](std::size_t begin, std::size_t end) {
    reader.read(source.tensor, begin, end, buffer.data());
    const std::size_t offset = source.offset + (begin - source.begin);
    write_range(file, stored, offset, offset + (end - begin), buffer.data());
  });
}

/// Creates `path`, lets `fill` write the tensors, and puts all on the disk.
template <class Fill>
void write_file(const std::string& path, const std::vector<Tensor>& tensors, const Groups& groups,
                const Options& options, Fill fill) {
  probe_space(path, metadata_bytes(tensors, groups, options));
  create_file(path, tensors, groups, options);
  File file = open_alone(path, Access::write, options);
  fill(file);
  file.close();
  if (options.fsync) synchronise(path);
}

std::string write_shared_file(Reader& reader, const std::string& path, std::uint64_t step,
                              const Groups& groups, const Options& options) {
  const std::string partial = partial_path(fs::path(path).parent_path().string(), step);
  write_file(partial, reader.tensors(), groups, options, [&](const File& file) {
    for (std::uint64_t t = 0; t < reader.tensors().size(); ++t)
      copy(reader, {t, 0, reader.tensors()[t].size(), 0, 0}, file, reader.tensors()[t]);
  });
  commit_shared_file(partial, path, options);
  return path;
}

std::string write_file_per_rank(Reader& reader, const std::string& path, std::uint64_t step,
                                const Groups& groups, const Options& options,
                                const std::vector<Shard>& parts) {
  const std::string folder = fs::path(path).parent_path().string();
  const std::string partial = partial_shards_path(folder, step);
  make_folder(partial);
  Index index{path, step, {}, {}};
  for (std::uint64_t rank = 0; rank < parts.size(); ++rank) {
    const Shard& part = parts[rank];
    const std::string file_path = (fs::path(partial) / rank_file_name(rank)).string();
    write_file(file_path, part.contents.tensors, shard_groups(part, rank, parts.size(), step), options,
               [&](const File& file) {
                 for (const Source& source : part.sources) {
                   Tensor flat = reader.tensors()[source.tensor];
                   flat.shape = {flat.size()};
                   copy(reader, source, file, flat);
                 }
               });
    index.files.push_back({fs::file_size(file_path), part.fingerprint});
    index.sources.insert(index.sources.end(), part.sources.begin(), part.sources.end());
  }
  sort_and_require_cover(reader.tensors(), index.sources);
  commit_file_per_rank(partial, partial_path(folder, step), index, reader.tensors(), groups, options);
  return path;
}

}  // namespace

std::string convert(const std::string& from, const std::string& folder, const Options& options,
                    std::uint64_t ranks) {
  const bool rank_files = options.layout == Layout::file_per_rank;
  if (ranks > 0 && !rank_files) throw DeckError("a number of ranks is for the layout file_per_rank only");
  Reader reader(from);
  require_state(from, reader.state());
  const std::uint64_t step = own_step(reader);
  const std::string path = (fs::path(folder) / file_name(step)).string();
  if (fs::exists(path)) throw DeckError(path + " is there already: give another folder");
  const auto parts = make_parts(reader, !rank_files ? 1 : ranks > 0 ? ranks : ranks_of(reader));
  const Groups groups = groups_of({{}, {}, reader.state(), reader.run()});
  make_folder(folder);
  fs::remove_all(partial_shards_path(folder, step));  // a leftover of the same name
  if (options.check_free_space)
    require_free_space(folder, data_bytes(reader.tensors()) +
                                   (1 + parts.size()) * metadata_bytes(reader.tensors(), groups, options));
  return rank_files ? write_file_per_rank(reader, path, step, groups, options, parts)
                    : write_shared_file(reader, path, step, groups, options);
}

}  // namespace shardmark::checkpoint
