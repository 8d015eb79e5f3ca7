// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/pending.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/types.hpp"

namespace shardmark {

enum class Collective { all_gather, reduce_scatter, all_reduce, broadcast };
inline constexpr std::array collective_names = {"all_gather", "reduce_scatter", "all_reduce", "broadcast"};

enum class Reduction { sum, max };

/// What one rank put through one kind of collective. Bytes are those that the rank must send at least:
/// (P-1)/P of the whole buffer for all-gather, reduce-scatter and broadcast, twice that for all-reduce.
struct Traffic {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
};
using TrafficByKind = std::array<Traffic, collective_names.size()>;
using TimeByKind = std::array<CommTime, collective_names.size()>;

/// Whose the memory for collectives is: each rank has its own, or all ranks have one and the same.
enum class CommMemory { own, common };

/// Memory for collectives, from Communicator::allocate. Converts to the View that functions take.
template <class T>
struct CommBuffer {
  std::shared_ptr<void> owner;
  Vector<T> view;
};

/// A group of ranks that compute together. The typed functions are the contract; a back end implements the
/// untyped ones below them. Every rank of the group makes the same calls in the same order with the same
/// sizes; waits are calls too. Counts are 64-bit; a count of zero is a call that does nothing. Any failure
/// throws EnvironmentError.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string backend() const = 0;
  /// The MPI communicator as MPI_Comm_c2f gives it, for libraries that speak MPI themselves (HDF5).
  virtual int mpi_handle() const = 0;
  /// Ranks of this group that share this rank's node.
  virtual int ranks_on_node() const = 0;

  /// Ranks with the same color form a group, ordered by key. Collective.
  virtual std::unique_ptr<Communicator> split(int color, int key) const = 0;
  virtual void barrier() const = 0;

  /// n elements that the collectives below may use. Collective, and so is giving them back. Not initialised.
  /// Groups within this one may use them too. Buffers of a collective, or what they are slices of, come from
  /// here on all of its ranks or on none; others cost an extra copy on some back ends.
  /// `label` is "shardmark::<file>::<what>".
  template <class T>
  CommBuffer<T> allocate(std::size_t n, const std::string& label, CommMemory kind = CommMemory::own) {
    std::shared_ptr<void> owner = allocate_bytes(n * sizeof(T), label, kind);
    return {owner, Vector<T>(static_cast<T*>(owner.get()), n)};
  }
  /// Whether it allocates common memory; to ask for that where it does not is a std::logic_error. The ranks'
  /// equal slices lie in it in their order, each rank writes to its own only, and an all-gather of the whole
  /// moves nothing: it tells that everybody's slice may be read. Other collectives are not for it.
  virtual bool has_common_memory() const { return false; }

  /// In place: rank r brings the r-th of size() equal slices of `whole`, and gets all of them.
  template <class T>
  Pending start_all_gather(const Exec& exec, const Vector<T>& whole) {
    const std::size_t slice = slice_of(whole.extent(0));
    count(Collective::all_gather, slice * (size() - 1) * sizeof(T));
    return timed(Collective::all_gather, exec,
                 [&] { return all_gather(exec, whole.data(), slice, dtype_of<T>); });
  }

  /// Sums `whole` over the ranks; rank r gets the r-th of size() equal slices in `out`, which is separate
  /// memory or exactly the rank's own slice of `whole`. The rest of `whole` is undefined afterwards.
  template <class T>
  Pending start_reduce_scatter(const Exec& exec, const Vector<T>& whole, const Vector<T>& out) {
    const std::size_t slice = slice_of(whole.extent(0));
    if (out.extent(0) != slice) throw EnvironmentError("reduce-scatter: the output must hold one slice");
    count(Collective::reduce_scatter, slice * (size() - 1) * sizeof(T));
    return timed(Collective::reduce_scatter, exec,
                 [&] { return reduce_scatter(exec, whole.data(), out.data(), slice, dtype_of<T>); });
  }

  /// In place.
  template <class T>
  Pending start_all_reduce(const Exec& exec, const Vector<T>& data, Reduction op = Reduction::sum) {
    count(Collective::all_reduce, 2 * part_sent(data.extent(0) * sizeof(T)));
    return timed(Collective::all_reduce, exec,
                 [&] { return all_reduce(exec, data.data(), data.extent(0), dtype_of<T>, op); });
  }

  /// In place: everyone gets what `root` has.
  template <class T>
  Pending start_broadcast(const Exec& exec, const Vector<T>& data, int root) {
    count(Collective::broadcast, part_sent(data.extent(0) * sizeof(T)));
    return timed(Collective::broadcast, exec,
                 [&] { return broadcast(exec, data.data(), data.extent(0), dtype_of<T>, root); });
  }

  /// Runs `starts`, which starts collectives, of any groups of the job, and waits for none of them. Back ends
  /// whose library carries several out in one call give it the small ones together; on those nothing is under
  /// way before the end, and nothing is where `starts` throws. May be nested: the outermost one counts.
  template <class Starts>
  void group_calls(const Starts& starts) {
    open_group();
    try {
      starts();
    } catch (...) {
      drop_group();
      throw;
    }
    close_group();
  }
  /// Collectives of so many bytes a rank in all go in one call; 0 where each goes by itself.
  virtual std::size_t grouped_bytes() const { return 0; }

  /// Small host arrays, blocking, not counted as traffic.
  template <class T>
  void host_all_reduce(T* data, std::size_t n, Reduction op = Reduction::sum) const {
    host_all_reduce_bytes(data, n, dtype_of<T>, op);
  }
  template <class T>
  T host_sum(T value) const {
    host_all_reduce(&value, 1);
    return value;
  }
  template <class T>
  T host_max(T value) const {
    host_all_reduce(&value, 1, Reduction::max);
    return value;
  }
  virtual std::string host_broadcast(const std::string& text, int root) const = 0;
  /// Every rank's text, by rank, on every rank.
  virtual std::vector<std::string> host_gather(const std::string& text) const = 0;

  /// Runs `action` on this rank, then compares notes: where any rank threw an Error, all ranks throw the
  /// lowest failing rank's error, with its code and message. Collective.
  void agree(const std::function<void()>& action) const;

  const TrafficByKind& traffic() const { return traffic_; }
  /// Of the collectives that were waited for.
  const TimeByKind& times() const { return times_; }
  void reset_traffic() {
    traffic_ = {};
    times_ = {};
  }

 protected:
  /// Before each collective: where the library does not follow the order of `exec`, fences it. Not counted as
  /// time of the collective.
  virtual void make_ready(const Exec& /*exec*/) {}
  virtual void open_group() {}
  virtual void close_group() {}
  virtual void drop_group() {}
  virtual std::shared_ptr<void> allocate_bytes(std::size_t bytes, const std::string& label, CommMemory) = 0;
  virtual Pending all_gather(const Exec&, void* whole, std::size_t slice, Dtype) = 0;
  virtual Pending reduce_scatter(const Exec&, void* whole, void* out, std::size_t slice, Dtype) = 0;
  virtual Pending all_reduce(const Exec&, void* data, std::size_t n, Dtype, Reduction) = 0;
  virtual Pending broadcast(const Exec&, void* data, std::size_t n, Dtype, int root) = 0;
  virtual void host_all_reduce_bytes(void* data, std::size_t n, Dtype, Reduction) const = 0;

 private:
  std::size_t slice_of(std::size_t n) const {
    if (n % size() != 0)
      throw EnvironmentError("collective: the buffer is not a multiple of the group's size");
    return n / size();
  }
  std::uint64_t part_sent(std::uint64_t bytes) const { return bytes * (size() - 1) / size(); }
  void count(Collective kind, std::uint64_t bytes) {
    Traffic& traffic = traffic_[static_cast<std::size_t>(kind)];
    ++traffic.calls;
    traffic.bytes += bytes;
  }

  template <class Start>
  Pending timed(Collective kind, const Exec& exec, Start start) {
    make_ready(exec);
    const Stopwatch watch;
    Pending pending = start();
    pending.book(times_[static_cast<std::size_t>(kind)], watch.seconds());
    return pending;
  }

  TrafficByKind traffic_ = {};
  TimeByKind times_ = {};
};

/// The most elements that one MPI call is given; larger buffers go in several calls.
inline constexpr std::size_t default_largest_count = std::size_t{1} << 30;

/// Who carries out the collectives on MPI: the library, mostly while the main thread waits, or a thread of
/// its own ([Note: Progress worker]). Either way the same MPI calls, so the same bits.
enum class CommProgress { wait, worker };
inline constexpr std::array progress_names = {"wait", "worker"};

/// Copies through host memory of what MPI can't read, or can't add up: where that is so, never, always.
enum class Staging { automatic, never, always };

struct CommOptions {
  std::size_t largest_count = default_largest_count;
  CommProgress progress = CommProgress::wait;
  Staging staging = Staging::automatic;
  int ranks_per_node = 0;  ///< above 0, nodes count as several of at most so many ranks each: for tests
  double timeout = 0;      ///< seconds after which NCCL gives a collective up; 0 = never
};

/// All ranks of the job. `backend` is one of comm_backends(); Staging::always goes with mpi only.
///   mpi   the MPI library's collectives, staged where CommOptions say so; EnvironmentError where MPI does
///   not
///         read the memory and staging is never
///   node  direct loads and stores inside a node, MPI across nodes ([Note: Node back end]). Groups of which
///         each node has equally many ranks, at least two, have it; the others have mpi. DeckError where no
///         two ranks of the job share a node, and on builds for a device.
///   nccl  NCCL on CUDA builds with NCCL and a device a rank; else a DeckError
///   auto  node where it is possible
/// backend() of a group tells what it has. Groups split from it have the same options, and share its worker.
/// Collective.
std::unique_ptr<Communicator> make_world_communicator(const std::string& backend,
                                                      const CommOptions& options = {});
/// The words of comm.backend, the same in every build; to make one that this build lacks is a DeckError.
std::vector<std::string> comm_backends();

/// The first line of what the MPI library says of itself.
std::string mpi_library_version();
/// The component behind MPI-IO ("ompio", "romio …"), found by opening a temporary file; "unknown" where it
/// does not tell.
std::string mpi_io_component();
/// The NCCL that this program runs with, "2.28.9"; empty where it was built without.
std::string nccl_version();
/// This MPI says that it reads device memory; false where it can't be asked.
bool mpi_is_gpu_aware();

}  // namespace shardmark
