// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>

#include "checkpoint/folder.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/hdf5.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/transfer.hpp"

namespace shardmark::checkpoint {
namespace {

// [Note: Full disk] A failed write must end in the same error on all ranks, never in a hang. MPI ranks lose
// step where one of them fails to write metadata inside a collective call of HDF5, or fails inside a
// collective write: HDF5 leaves out the rest of its collective steps there, and MPI may even report success
// for data that never reached the disk; other ranks then wait for ever, or the next collective call on the
// file does. (Seen with HDF5 1.10 and Open MPI 4.1, both OMPIO and ROMIO.) So:
//
// 1. Rank 0 creates the file alone, with all metadata, and closes it, after a probe that there is room for
//    them (HDF5 may crash where there is none). Only then do all ranks open it together, and write nothing
//    but raw data into space that has its place: flush and close have no metadata to write.
// 2. For collective mode rank 0 also reserves the blocks, so that a full disk shows before any collective
//    write; after it each rank reads its pieces back, in independent calls, and fingerprints are compared.
// 3. Every rank's status is compared before the next collective call.
// 4. After an error HDF5 is asked nothing more about the file: it stays open. start_before_mpi() keeps HDF5
//    from closing it at the end of the process.

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

template <class Action>
void on_rank_0(const Communicator& comm, Action action) {
  comm.agree([&] {
    if (comm.rank() == 0) action();
  });
}

std::uint64_t bytes_of(const std::vector<Tensor>& tensors) {
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.size() * size_of(tensor.dtype);
  return bytes;
}

/// What HDF5 needs beside the data: at most, by about a factor of two.
std::uint64_t metadata_bytes(const Contents& contents) {
  std::uint64_t bytes = 65536;
  for (const Tensor& tensor : contents.tensors) bytes += 2048 + 4 * dataset_path(tensor).size();
  for (const Values* values : {&contents.state, &contents.run})
    for (const auto& [key, value] : *values) {
      const auto* text = std::get_if<std::string>(&value);
      bytes += 1024 + 4 * key.size() + (text ? text->size() : 0);
    }
  return bytes;
}

void require_fingerprints(const std::string& path, const std::vector<Tensor>& tensors,
                          const std::vector<std::uint64_t>& found) {
  std::string damaged;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (found[t] != tensors[t].fingerprint)
      damaged += (damaged.empty() ? "" : ", ") + dataset_path(tensors[t]);
  if (!damaged.empty())
    throw Error(ExitCode::environment, path + " is damaged: wrong fingerprint of " + damaged, true);
}

void write_partial_file(const Communicator& comm, const std::string& path, const Contents& contents,
                        const Options& options) {
  on_rank_0(comm, [&] {
    probe_space(path, metadata_bytes(contents));
    create_file(path, contents);
    if (options.collective) reserve_space(path);
  });
  File file = open_together(comm, path, Access::write);
  write_pieces(comm, file, contents, options);
  if (options.collective)
    require_fingerprints(path, contents.tensors, fingerprints_in_file(comm, file, contents));
  comm.agree([&] { SHARDMARK_HDF5(path, H5Fflush(file.id(), H5F_SCOPE_GLOBAL)); });  // fsync on every rank
  comm.agree([&] { file.close(); });
}

}  // namespace

Report save_shared_file(const Communicator& comm, const std::string& folder, std::uint64_t step,
                        const Contents& contents, const Options& options, std::size_t keep) {
  const Stopwatch stopwatch;
  const std::string partial = partial_path(folder, step);
  on_rank_0(comm, [&] {
    make_folder(folder);
    remove_partial_files(folder);
    if (options.check_free_space)
      require_free_space(folder, bytes_of(contents.tensors) + metadata_bytes(contents));
  });
  try {
    write_partial_file(comm, partial, contents, options);
  } catch (const Error& error) {
    if (!error.everywhere()) throw;
    const std::string free = comm.host_broadcast(comm.rank() == 0 ? free_space_text(folder) : "", 0);
    throw Error(error.code(), error.what() + free, true);
  }
  on_rank_0(comm, [&] {
    commit(partial, (std::filesystem::path(folder) / file_name(step)).string());
    prune(folder, step, keep);
  });
  return {bytes_of(contents.tensors), stopwatch.seconds()};
}

std::map<std::string, Value> read_state(const Communicator& comm, const std::string& path) {
  Values state;
  on_rank_0(comm, [&] { state = read_values(open_checkpoint(path), "/state"); });
  broadcast_values(comm, state);
  return state;
}

Report load(const Communicator& comm, const std::string& path, Contents& contents, const Options& options) {
  const Stopwatch stopwatch;
  std::vector<std::uint64_t> fingerprints(contents.tensors.size(), 0);
  on_rank_0(comm, [&] {
    const File file = open_checkpoint(path);
    require_same_tensors(file, contents.tensors);
    fingerprints = read_fingerprints(file, contents.tensors);
    contents.state = read_values(file, "/state");
    contents.run = read_values(file, "/run");
  });
  broadcast_values(comm, contents.state);
  broadcast_values(comm, contents.run);
  comm.host_all_reduce(fingerprints.data(), fingerprints.size());  // zero on all ranks but 0
  for (std::size_t t = 0; t < fingerprints.size(); ++t) contents.tensors[t].fingerprint = fingerprints[t];

  File file = open_together(comm, path, Access::read);
  read_pieces(comm, file, contents, options);
  comm.agree([&] { file.close(); });
  return {bytes_of(contents.tensors), stopwatch.seconds()};
}

void verify_fingerprints(const Communicator& comm, const std::string& path, const Contents& contents) {
  require_fingerprints(path, contents.tensors, fingerprints_in_memory(comm, contents));
}

}  // namespace shardmark::checkpoint
