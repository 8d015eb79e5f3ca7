// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "checkpoint/layouts.hpp"
#include "checkpoint/transfer.hpp"

namespace shardmark::checkpoint {
namespace {

void require_consistent(const Options& options) {
  if (options.collective && options.layout == Layout::file_per_rank)
    throw DeckError(
        "checkpoint.transfer = \"collective\" is for checkpoint.layout = \"shared_file\"; each rank writes a "
        "file of its own with \"file_per_rank\", and \"independent\" is valid there");
}

}  // namespace

void add_fingerprints(const Communicator& comm, Contents& contents) {
  std::vector<std::uint64_t> sums(contents.tensors.size(), 0);
  for (Piece& piece : contents.pieces) {
    piece.terms = sum_terms(contents.tensors[piece.tensor].dtype, piece.data, piece.begin, piece.end);
    sums[piece.tensor] += *piece.terms;
  }
  comm.host_all_reduce(sums.data(), sums.size());
  for (std::size_t t = 0; t < sums.size(); ++t) contents.tensors[t].fingerprint = sums[t];
}

Report save(const Communicator& comm, const std::string& folder, std::uint64_t step, const Contents& contents,
            const Options& options, std::size_t keep) {
  require_consistent(options);
  Report report;
  report.bytes = data_bytes(contents.tensors);
  PhaseClock clock(report);
  const std::string path = (std::filesystem::path(folder) / file_name(step)).string();
  on_rank_0(comm, [&] {
    make_folder(folder);
    remove_leftovers(folder);
  });
  const auto save_in_layout = options.layout == Layout::shared_file ? save_shared_file : save_file_per_rank;
  save_in_layout(comm, path, step, contents, options, clock);
  on_rank_0(comm, [&] {
    prune(folder, step, keep);
    report.file_bytes = checkpoint_bytes(path);
  });
  report.file_bytes = comm.host_max(report.file_bytes);
  clock.lap(Phase::rename);
  return report;
}

}  // namespace shardmark::checkpoint
