// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/cuda_call.hpp"
#include "core/dtype.hpp"
#include "core/handle.hpp"

namespace shardmark {

struct CudaStreamTraits {
  using type = cudaStream_t;
  static type empty() { return nullptr; }
  static void close(type stream) { cudaStreamDestroy(stream); }
};

/// What is called, for messages.
struct NcclCall {
  const char* function;
  std::size_t count = 0;  ///< elements that a rank brings
  Dtype dtype = Dtype::fp32;
  int ranks = 1;

  std::size_t bytes() const { return count * size_of(dtype); }
  std::string text() const;
};

/// Events that were given back, for the next to take: making one is a call of the driver.
class CudaEventPool : public std::enable_shared_from_this<CudaEventPool> {
 public:
  /// Goes back by itself, from any thread, and from a pool that nobody else holds any more.
  std::shared_ptr<CudaEvent> take();

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<CudaEvent>> free_;
};

/// [Note: NCCL engine] What all NCCL communicators of a process share: one stream and one watcher. The engine
/// speaks pointers, streams and events, not Kokkos.
///
/// All collectives of all groups run on the one stream, of the highest priority, in the order of their
/// starts. NCCL deadlocks where ranks run collectives of overlapping groups in different orders; one queue
/// can't, for the reason in [Note: Progress worker]. They run beside compute since they follow the compute
/// stream by event only: follow() before, and who uses the result makes the compute stream wait for the event
/// that launch() returns. The host waits for neither.
///
/// Communicators are non-blocking, so that no call is stuck in NCCL: what does not end within `timeout`
/// seconds is given up. The watcher, a thread, looks at asynchronous errors and at collectives that were
/// launched: where NCCL reports an error, or none ends for `timeout` seconds although some are in flight, it
/// aborts all communicators, which frees a main thread that is blocked in a fence, and the next call of the
/// engine throws. Whatever failed first stays the message.
///
/// Between open_group() and the close_group() of the same depth, launch() only notes the call: NCCL's own
/// group is open no longer than the calls in it take, so nothing else gets into one, and an exception leaves
/// none open. Neighbours of up to grouped_bytes in all are one group to NCCL, so one launch; larger calls
/// gain nothing and would only end later, so they go by themselves. Events are recorded when NCCL's group has
/// ended and has come about: before, the stream holds nothing of it.
class NcclEngine {
 public:
  /// `timeout` 0: never. Throws EnvironmentError where there is no device.
  explicit NcclEngine(double timeout);
  ~NcclEngine();
  NcclEngine(const NcclEngine&) = delete;
  NcclEngine& operator=(const NcclEngine&) = delete;

  /// Bytes that name a new communicator; made by one rank, given to all.
  static std::string make_id();
  /// Collective over the group's ranks.
  ncclComm_t open(const std::string& id, int ranks, int rank);
  /// Collective; aborts where an exception is on its way, since the others may not come. Never throws.
  void close(ncclComm_t comm);

  /// Later collectives begin after all that was launched on `compute` so far.
  void follow(cudaStream_t compute);
  /// cudaEventQuery without a trace in cudaGetLastError where the answer is: not yet.
  static cudaError_t query(const CudaEvent& event);
  /// Enqueues, or notes for the end of the group; the event happens when the result is in place.
  std::shared_ptr<CudaEvent> launch(ncclComm_t comm, const NcclCall& call,
                                    const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& enqueue);
  static constexpr std::size_t grouped_bytes = std::size_t{4} << 20;
  void open_group() { ++groups_; }
  void close_group();
  void drop_group();
  /// Throws std::logic_error where the event's collective is only noted.
  void require_launched(const CudaEvent& event) const;

  /// Blocks the host until then, or until the collective is given up.
  void block_until(const CudaEvent& event);
  /// Throws EnvironmentError after a failure.
  void check();

 private:
  using Clock = std::chrono::steady_clock;
  struct InFlight {
    std::shared_ptr<CudaEvent> done;
    NcclCall call;
  };

  struct Noted {
    ncclComm_t comm;
    NcclCall call;
    std::function<ncclResult_t(ncclComm_t, cudaStream_t)> enqueue;
    std::shared_ptr<CudaEvent> done;
  };

  void launch_together(std::span<Noted> calls);
  ncclResult_t enqueue_together(std::span<Noted> calls);
  /// Calls `start`, then asks until NCCL has done its part on the host, for all of `comms`.
  void settle(std::span<ncclComm_t> comms, const NcclCall& call, const std::function<ncclResult_t()>& start);
  void watch();
  void look();
  void throw_if_failed() const;
  void fail(const std::string& reason);
  bool too_late(Clock::time_point since) const;

  const double timeout_;
  int device_ = 0;
  Handle<CudaStreamTraits> stream_;
  CudaEvent computed_;
  const std::shared_ptr<CudaEventPool> events_ = std::make_shared<CudaEventPool>();
  int groups_ = 0;            ///< open ones, within each other
  std::vector<Noted> noted_;  ///< calls of the open groups, in order

  std::mutex mutex_;  ///< of everything below; held during calls to NCCL
  std::vector<ncclComm_t> open_;
  std::deque<InFlight> in_flight_;  ///< oldest first
  Clock::time_point progress_;      ///< when one of them last ended, or came to an empty queue
  std::string failure_;
  bool leaving_ = false;
  std::condition_variable wake_;
  std::thread watcher_;
};

}  // namespace shardmark
