// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "checkpoint/layouts.hpp"

namespace shardmark::checkpoint {
namespace {

void require_consistent(const Options& options) {
  if (options.collective && options.layout == Layout::file_per_rank)
    throw DeckError(
        "checkpoint.transfer = \"collective\" is for checkpoint.layout = \"shared_file\"; each rank writes a "
        "file of its own with \"file_per_rank\", and \"independent\" is valid there");
}

}  // namespace

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
