// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/layouts.hpp"
#include "checkpoint/transfer.hpp"

namespace shardmark::checkpoint {

std::map<std::string, Value> read_state(const Communicator& comm, const std::string& path) {
  Values state;
  on_rank_0(comm, [&] { state = read_values(open_checkpoint(path), "/state"); });
  broadcast_values(comm, state);
  return state;
}

Report load(const Communicator& comm, const std::string& path, Contents& contents, const Options& options) {
  Report report;
  report.bytes = data_bytes(contents.tensors);
  PhaseClock clock(report);
  std::vector<std::uint64_t> fingerprints(contents.tensors.size(), 0);
  Index index;
  on_rank_0(comm, [&] {
    const File file = open_checkpoint(path);
    require_same_tensors(file, contents.tensors);
    fingerprints = read_fingerprints(file, contents.tensors);
    contents.state = read_values(file, "/state");
    contents.run = read_values(file, "/run");
    index = read_index(file, contents.tensors);
    report.file_bytes = checkpoint_bytes(path);
  });
  broadcast_values(comm, contents.state);
  broadcast_values(comm, contents.run);
  broadcast_index(comm, index);
  comm.host_all_reduce(fingerprints.data(), fingerprints.size());  // zero on all ranks but 0
  for (std::size_t t = 0; t < fingerprints.size(); ++t) contents.tensors[t].fingerprint = fingerprints[t];
  report.file_bytes = comm.host_max(report.file_bytes);
  clock.lap(Phase::metadata);

  if (index.files.empty()) {
    load_shared_file(comm, path, contents, options, clock);
  } else {
    load_file_per_rank(comm, index, contents, options, clock);
  }
  return report;
}

void verify_fingerprints(const Communicator& comm, const std::string& path, const Contents& contents) {
  require_fingerprints(path, contents.tensors, fingerprints_in_memory(comm, contents));
}

}  // namespace shardmark::checkpoint
