// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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
  void* data;                               ///< element `begin`
  std::optional<std::uint64_t> terms = {};  ///< its part of the tensor's fingerprint, where it is known
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

/// Where the tensors' data lie; names, shapes and /state are the same in both.
enum class Layout {
  shared_file,   ///< in step_XXXXXXXX.h5 itself, contiguous
  file_per_rank  ///< in step_XXXXXXXX.shards/rank_00000.h5 and so on; step_XXXXXXXX.h5 is an index of them
};
inline constexpr std::array layout_names = {"shared_file", "file_per_rank"};

/// Whether a hint for MPI has the form key=value, in lengths that this MPI takes.
bool is_mpi_info(const std::string& hint);

struct Options {
  bool collective = false;  ///< checkpoint.transfer: collective or independent transfers to a shared file
  std::size_t largest_call = std::size_t{64} << 20;  ///< bytes a read or write call (tests lower it)
  bool check_free_space = true;         ///< refuse before writing where the file system has too little room
  Layout layout = Layout::shared_file;  ///< of new checkpoints; loading reads either
  bool fsync = true;                    ///< false, for benchmarks: a power failure may damage the checkpoint
  std::uint64_t alignment = 0;  ///< bytes: tensors of that size or more start at multiples of it; 0: anywhere
  std::vector<std::string> mpi_info = {};  ///< hints to MPI-IO, "striping_factor=8"
};

/// The parts of a save or a load, in order.
enum class Phase {
  snapshot,  ///< device to host memory, and fingerprints; the caller's part
  metadata,  ///< names, shapes, /state and /run; space is probed or reserved
  open,      ///< of files on all ranks
  data,      ///< the tensors
  sync,      ///< flush, close, fsync
  rename     ///< to the final name, index of rank files included; older checkpoints are removed
};
inline constexpr std::array phase_names = {"snapshot", "metadata", "open", "data", "sync", "rename"};

/// What a save or a load took.
struct Report {
  std::uint64_t bytes = 0;       ///< tensor data of all ranks
  std::uint64_t file_bytes = 0;  ///< size of all files together; the same on all ranks
  double seconds = 0;            ///< this rank's, all phases but the snapshot
  std::array<double, phase_names.size()> phase_seconds = {};  ///< this rank's

  double& operator[](Phase phase) { return phase_seconds[static_cast<std::size_t>(phase)]; }
  double operator[](Phase phase) const { return phase_seconds[static_cast<std::size_t>(phase)]; }
};

/// Of the library that the program runs with.
std::string hdf5_version();

/// The first call of main, before MPI starts: an HDF5 that starts later closes files at MPI_Finalize, and may
/// hang or crash there after a save that failed.
void start_before_mpi();

/// "step_00000100.h5"
std::string file_name(std::uint64_t step);

/// "step_00000100.shards": the folder of rank files beside the index step_00000100.h5.
std::string shards_name(std::uint64_t step);

/// Checkpoints of a folder by step, newest last; files without the name's form, partial files included, are
/// left out, as are folders of rank files without an index. A folder that does not exist has none. Throws
/// EnvironmentError where the folder can't be read.
struct Found {
  std::uint64_t step;
  std::string path;
};
std::vector<Found> scan(const std::string& folder);

/// Renames the checkpoint `path`, and the folder of its rank files, to <name>.abandoned, or .abandoned.2 and
/// so on where that is taken. Returns the new path. On one rank.
std::string set_aside(const std::string& path);

/// Throws EnvironmentError where the file is named as the checkpoint of another step than `step`, that of its
/// /state.
void require_step(const std::string& path, std::uint64_t step);

/// Computes fingerprints before a save: of each piece, and of the whole tensors, [Note: Fingerprint]. The
/// pieces of all ranks cover each tensor exactly once. Collective.
void add_fingerprints(const Communicator& comm, Contents& contents);

/// Removes what failed or killed saves have left, then writes `folder`/step_XXXXXXXX.h5 in parallel, under
/// names that end in .partial until all is whole and on the disk; then removes all other checkpoints but the
/// newest, so that `keep` are left (0: removes none). The state gets format_version. Collective; on failure
/// all ranks throw the same EnvironmentError (code 3), partial files stay, and earlier checkpoints are
/// untouched. DeckError where options contradict each other.
Report save(const Communicator& comm, const std::string& folder, std::uint64_t step, const Contents& contents,
            const Options& options, std::size_t keep);

/// A digest of all entries but itself and the format version, which a checkpoint's /state keeps as "digest":
/// HDF5 does not check contiguous data.
std::uint64_t digest_of(const std::map<std::string, Value>& state);

/// /state of a file, for looking before loading. Throws EnvironmentError, everywhere alike, naming the
/// file where it can't be opened, is truncated, or is not a checkpoint of this format. Collective.
std::map<std::string, Value> read_state(const Communicator& comm, const std::string& path);

/// Fills the pieces from `path`; strict: a missing, extra or wrong-shape dataset under /model or /optimizer
/// is an error by name (DeckError: the checkpoint is another model's). Sets contents.tensors[i].fingerprint
/// to the stored ones, contents.state and .run. Reads either layout from any number of ranks; a rank file
/// that is missing, truncated or of another checkpoint is an error by name. Collective; all ranks throw
/// alike. A stored fp64 tensor loads into fp32 and the other way round only where dtypes are equal; else an
/// error.
Report load(const Communicator& comm, const std::string& path, Contents& contents, const Options& options);

/// Checks what the pieces hold against contents.tensors[i].fingerprint, [Note: Fingerprint]. The pieces of
/// all ranks cover each tensor exactly once. Throws EnvironmentError, everywhere alike, that names `path` and
/// the damaged tensors. Collective.
void verify_fingerprints(const Communicator& comm, const std::string& path, const Contents& contents);

}  // namespace shardmark::checkpoint
