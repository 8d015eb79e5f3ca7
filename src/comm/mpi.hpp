// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "comm/communicator.hpp"
#include "comm/progress_worker.hpp"
#include "comm/shared_window.hpp"
#include "core/handle.hpp"

namespace shardmark {

struct MpiCommTraits {
  using type = MPI_Comm;
  static type empty() { return MPI_COMM_NULL; }
  static void close(type comm) { MPI_Comm_free(&comm); }
};
struct MpiOpTraits {
  using type = MPI_Op;
  static type empty() { return MPI_OP_NULL; }
  static void close(type op) { MPI_Op_free(&op); }
};
struct MpiTypeTraits {
  using type = MPI_Datatype;
  static type empty() { return MPI_DATATYPE_NULL; }
  static void close(type datatype) { MPI_Type_free(&datatype); }
};

/// What a world communicator and the groups split from it have in common.
struct MpiShared {
  std::size_t largest_count = default_largest_count;
  Handle<MpiOpTraits> bf16_sum, fp16_sum;  ///< each addition in float, rounded once
  std::optional<ProgressWorker> worker;    ///< none: the main thread makes progress
  int world_rank = 0;
  int virtual_node = -1;                   ///< of this rank; -1: nodes are as they are
  std::unique_ptr<SharedWindows> windows;  ///< none: no group has the node back end
};

/// The group of the ranks of `comm`, on the back end that fits it. Collective.
std::unique_ptr<Communicator> make_group(MPI_Comm comm, std::shared_ptr<MpiShared> shared);

MPI_Datatype mpi_type(Dtype dtype);
/// `count` elements as one that ends where the next rank's slice begins: for gathers of parts of slices.
Handle<MpiTypeTraits> strided_chunk(int count, std::size_t slice, Dtype dtype);
/// Element `element` of `data`.
inline char* at(void* data, std::size_t element, Dtype dtype) {
  return static_cast<char*>(data) + element * size_of(dtype);
}

/// The communicator on MPI's non-blocking collectives. Buffers must be memory that this MPI can read.
/// Collectives of Views run on one MPI communicator ("shardmark data"), everything else on another
/// ("shardmark host"), so that those of the worker never mix with those of the main thread.
class MpiCommunicator : public Communicator {
 public:
  /// Takes duplicates of `comm`.
  MpiCommunicator(MPI_Comm comm, std::shared_ptr<MpiShared> shared);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string backend() const override { return "mpi"; }
  int mpi_handle() const override { return static_cast<int>(MPI_Comm_c2f(comm_.get())); }
  int ranks_on_node() const override;
  std::unique_ptr<Communicator> split(int color, int key) const override;
  void barrier() const override;
  std::string host_broadcast(const std::string& text, int root) const override;
  std::vector<std::string> host_gather(const std::string& text) const override;

 protected:
  void make_ready(const Exec&) override;
  std::shared_ptr<void> allocate_bytes(std::size_t bytes, const std::string& label, CommMemory) override;
  Pending all_gather(const Exec&, void* whole, std::size_t slice, Dtype) override;
  Pending reduce_scatter(const Exec&, void* whole, void* out, std::size_t slice, Dtype) override;
  Pending all_reduce(const Exec&, void* data, std::size_t n, Dtype, Reduction) override;
  Pending broadcast(const Exec&, void* data, std::size_t n, Dtype, int root) override;
  void host_all_reduce_bytes(void* data, std::size_t n, Dtype, Reduction) const override;

  /// Calls f(begin, count) for ranges of at most largest_count elements that cover [0, n).
  template <class F>
  void in_chunks(std::size_t n, F f) const {
    const std::size_t largest = shared_->largest_count;
    for (std::size_t begin = 0; begin < n; begin += largest)
      f(begin, static_cast<int>(std::min(largest, n - begin)));
  }
  /// The host may touch the buffers of collectives.
  virtual bool buffers_on_host() const { return exec_is_host; }
  MPI_Op op_of(Dtype dtype, Reduction op) const;
  const std::shared_ptr<MpiShared>& shared() const { return shared_; }

 private:
  struct Requests;
  /// Calls issue(Requests&), which makes non-blocking MPI calls, here or in the worker.
  template <class Issue>
  Pending start(Issue issue);

  std::shared_ptr<MpiShared> shared_;
  Handle<MpiCommTraits> comm_, data_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace shardmark
