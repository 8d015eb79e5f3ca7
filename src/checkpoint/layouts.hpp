// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "checkpoint/folder.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/shards.hpp"

/// What each layout of files does its own way: one file a layout, and save.cpp and load.cpp choose.
namespace shardmark::checkpoint {

/// Adds the time since the last lap to a phase of a report, and to its seconds.
class PhaseClock {
 public:
  explicit PhaseClock(Report& report) : report_(report) {}
  void lap(Phase phase) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    report_[phase] += seconds;
    report_.seconds += seconds;
    last_ = now;
  }

 private:
  Report& report_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

template <class Action>
void on_rank_0(const Communicator& comm, Action action) {
  comm.agree([&] {
    if (comm.rank() == 0) action();
  });
}

/// Adds to an error of all ranks how much space the folder has left.
template <class Action>
void with_free_space_in_errors(const Communicator& comm, const std::string& folder, Action action) {
  try {
    action();
  } catch (const Error& error) {
    if (!error.everywhere()) throw;
    const std::string free = comm.host_broadcast(comm.rank() == 0 ? free_space_text(folder) : "", 0);
    throw Error(error.code(), error.what() + free, true);
  }
}

/// Writes the checkpoint `path` in a folder without leftovers, up to its final name. Collective.
void save_shared_file(const Communicator& comm, const std::string& path, std::uint64_t step,
                      const Contents& contents, const Options& options, PhaseClock& clock);
void save_file_per_rank(const Communicator& comm, const std::string& path, std::uint64_t step,
                        const Contents& contents, const Options& options, PhaseClock& clock);

/// From whole partial files to the checkpoint. On one rank. `partial` is the file, or the folder of rank
/// files.
void commit_shared_file(const std::string& partial, const std::string& path, const Options& options);
void commit_file_per_rank(const std::string& partial, const std::string& partial_index, const Index& index,
                          const std::vector<Tensor>& tensors, const Groups& groups, const Options& options);

/// Fills the pieces. `index` is the same on all ranks. Collective.
void load_shared_file(const Communicator& comm, const std::string& path, const Contents& contents,
                      const Options& options, PhaseClock& clock);
void load_file_per_rank(const Communicator& comm, const Index& index, const Contents& contents,
                        const Options& options, PhaseClock& clock);

}  // namespace shardmark::checkpoint
