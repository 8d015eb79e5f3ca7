// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "comm/communicator.hpp"
#include "core/dtype.hpp"

namespace shardmark::checkpoint {

inline constexpr std::int64_t format_version = 1;

/// One tensor of a checkpoint, the same list in the same order on all ranks.
struct Tensor {
  std::string group;               ///< "model", "optimizer/exp_avg", …: the dataset is /<group>/<name>
  std::string name;                ///< the parameter's name
  std::vector<std::size_t> shape;  ///< at least one dimension
  Dtype dtype;                     ///< fp32 or fp64
  std::uint64_t fingerprint =
      0;  ///< of the whole tensor: stored in /fingerprint/<group>/<name>, checked on load

  std::size_t size() const {
    std::size_t n = 1;
    for (std::size_t extent : shape) n *= extent;
    return n;
  }
};

/// A contiguous range of a tensor in this rank's host memory: elements [begin, end) of the flattened tensor.
struct Piece {
  std::size_t tensor;  ///< index in the list of tensors
  std::size_t begin, end;
  void* data;  ///< element `begin`
};

using Value = std::variant<std::int64_t, std::uint64_t, double, std::string>;

/// All that one file holds. Saving reads the pieces, loading fills them. When saving, the pieces of all ranks
/// cover each tensor exactly once; when loading, each rank asks for the ranges that it wants, overlapping as
/// they may.
struct Contents {
  std::vector<Tensor> tensors;
  std::vector<Piece> pieces;
  std::map<std::string, Value>
      state;  ///< /state/<key>: scalars (step, seed, deck, …); part of the run's state
  std::map<std::string, Value> run;  ///< /run/<key>: provenance; comparisons skip it
};

struct Options {
  bool collective = false;  ///< checkpoint.transfer: collective or independent data transfers
  std::size_t largest_call = std::size_t{1} << 30;  ///< bytes a read or write call (tests lower it)
  bool check_free_space = true;  ///< refuse before writing where the file system has too little room
};

/// Seconds and bytes of a save or a load, this rank's.
struct Report {
  std::uint64_t bytes = 0;  ///< of all ranks
  double seconds = 0;
};

/// Of the library that the program runs with.
std::string hdf5_version();

/// The first call of main, before MPI starts: an HDF5 that starts later closes files at MPI_Finalize, and may
/// hang or crash there after a save that failed.
void start_before_mpi();

/// "step_00000100.h5"
std::string file_name(std::uint64_t step);

/// Complete checkpoints of a folder by step, newest last; files without the name's form, partial files
/// included, are left out. A folder that does not exist has none. Throws EnvironmentError where the folder
/// can't be read.
struct Found {
  std::uint64_t step;
  std::string path;
};
std::vector<Found> scan(const std::string& folder);

/// Removes leftover partial files, then writes `folder`/step_XXXXXXXX.h5 in parallel, as
/// .step_XXXXXXXX.h5.partial until it is whole and on the disk; then removes all other checkpoints but the
/// newest, so that `keep` are left (0: removes none). The state gets format_version. Collective; on failure
/// all ranks throw the same EnvironmentError (code 3), the partial file stays, and earlier checkpoints are
/// untouched.
Report save_shared_file(const Communicator& comm, const std::string& folder, std::uint64_t step,
                        const Contents& contents, const Options& options, std::size_t keep);

/// /state of a file, for looking before loading. Throws EnvironmentError, everywhere alike, naming the
/// file where it can't be opened, is truncated, or is not a checkpoint of this format. Collective.
std::map<std::string, Value> read_state(const Communicator& comm, const std::string& path);

/// Fills the pieces from `path`; strict: a missing, extra or wrong-shape dataset under /model or /optimizer
/// is an error by name (DeckError: the checkpoint is another model's). Sets contents.tensors[i].fingerprint
/// to the stored ones, contents.state and .run. Collective; all ranks throw alike. A stored fp64 tensor loads
/// into fp32 and the other way round only where dtypes are equal; else an error.
Report load(const Communicator& comm, const std::string& path, Contents& contents, const Options& options);

/// Checks what the pieces hold against contents.tensors[i].fingerprint, [Note: Fingerprint]. The pieces of
/// all ranks cover each tensor exactly once. Throws EnvironmentError, everywhere alike, that names `path` and
/// the damaged tensors. Collective.
void verify_fingerprints(const Communicator& comm, const std::string& path, const Contents& contents);

}  // namespace shardmark::checkpoint
