// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "checkpoint/layouts.hpp"
#include "checkpoint/transfer.hpp"

namespace shardmark::checkpoint {

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

void save_shared_file(const Communicator& comm, const std::string& path, std::uint64_t step,
                      const Contents& contents, const Options& options, PhaseClock& clock) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const std::string partial = partial_path(folder, step);
  const Groups groups = groups_of(contents);
  const std::uint64_t metadata = metadata_bytes(contents.tensors, groups, options);
  on_rank_0(comm, [&] {
    if (options.check_free_space) require_free_space(folder, data_bytes(contents.tensors) + metadata);
  });
  with_free_space_in_errors(comm, folder, [&] {
    on_rank_0(comm, [&] {
      probe_space(partial, metadata);
      create_file(partial, contents.tensors, groups, options);
      if (options.collective) reserve_space(partial);
    });
    clock.lap(Phase::metadata);
    File file = open_together(comm, partial, Access::write, options);
    clock.lap(Phase::open);
    write_pieces(comm, file, contents, options);
    if (options.collective)
      require_fingerprints(partial, contents.tensors, fingerprints_in_file(comm, file, contents));
    clock.lap(Phase::data);
    if (options.fsync)  // HDF5 and MPI-IO do an fsync on every rank
      comm.agree([&] { SHARDMARK_HDF5(partial, H5Fflush(file.id(), H5F_SCOPE_GLOBAL)); });
    comm.agree([&] { file.close(); });
    clock.lap(Phase::sync);
  });
  on_rank_0(comm, [&] { commit_shared_file(partial, path, options); });
  clock.lap(Phase::rename);
}

void commit_shared_file(const std::string& partial, const std::string& path, const Options& options) {
  commit(partial, path, options.fsync);
  remove_shards(path);
}

void load_shared_file(const Communicator& comm, const std::string& path, const Contents& contents,
                      const Options& options, PhaseClock& clock) {
  File file = open_together(comm, path, Access::read, options);
  clock.lap(Phase::open);
  read_pieces(comm, file, contents, options);
  comm.agree([&] { file.close(); });
  clock.lap(Phase::data);
}

}  // namespace shardmark::checkpoint
