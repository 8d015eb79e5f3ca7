// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#ifdef SHARDMARK_HAVE_NCCL
#include "comm/nccl_engine.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

#include "comm/nccl_call.hpp"
#include "core/cuda_call.hpp"

namespace shardmark {

std::string NcclCall::text() const {
  std::string text = function;
  if (count > 0) text += " of " + std::to_string(count) + " " + name_of(dtype) + " a rank";
  return text + " among " + std::to_string(ranks) + " ranks";
}

std::shared_ptr<CudaEvent> CudaEventPool::take() {
  std::unique_ptr<CudaEvent> event;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      event = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (event == nullptr) event = std::make_unique<CudaEvent>(make_cuda_event());
  return {event.release(), [pool = shared_from_this()](CudaEvent* given_back) {
            const std::lock_guard lock(pool->mutex_);
            pool->free_.emplace_back(given_back);
          }};
}

NcclEngine::NcclEngine(double timeout) : timeout_(timeout) {
  int devices = 0;
  SHARDMARK_CUDA(cudaGetDeviceCount(&devices));
  SHARDMARK_CUDA(cudaGetDevice(&device_));
  int lowest = 0, highest = 0;
  SHARDMARK_CUDA(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  cudaStream_t stream = nullptr;
  SHARDMARK_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest));
  stream_ = Handle<CudaStreamTraits>(stream);
  computed_ = make_cuda_event();
  watcher_ = std::thread([this] { watch(); });
}

NcclEngine::~NcclEngine() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake_.notify_all();
  watcher_.join();
}

std::string NcclEngine::make_id() {
  ncclUniqueId id;
  SHARDMARK_NCCL(ncclGetUniqueId(&id));
  return std::string(id.internal, sizeof id.internal);
}

ncclComm_t NcclEngine::open(const std::string& id, int ranks, int rank) {
  ncclUniqueId name;
  std::memcpy(name.internal, id.data(), std::min(id.size(), sizeof name.internal));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  settle({&comm, 1}, {"ncclCommInitRankConfig", 0, {}, ranks}, [&] {
    const ncclResult_t result = ncclCommInitRankConfig(&comm, ranks, name, rank, &config);
    if (comm != nullptr) open_.push_back(comm);
    return result;
  });
  return comm;
}

void NcclEngine::close(ncclComm_t comm) {
  const auto is_open = [&] { return std::find(open_.begin(), open_.end(), comm) != open_.end(); };
  try {
    if (std::uncaught_exceptions() == 0)
      settle({&comm, 1}, {"ncclCommFinalize"}, [&] { return ncclCommFinalize(comm); });
    const std::lock_guard lock(mutex_);
    if (!is_open()) return;
    open_.erase(std::find(open_.begin(), open_.end(), comm));
    std::uncaught_exceptions() == 0 ? ncclCommDestroy(comm) : ncclCommAbort(comm);
  } catch (const std::exception&) {
    // It was aborted, and whoever came to know of that first has thrown.
  }
}

void NcclEngine::follow(cudaStream_t compute) {
  check();
  SHARDMARK_CUDA(cudaEventRecord(computed_.get(), compute));
  SHARDMARK_CUDA(cudaStreamWaitEvent(stream_.get(), computed_.get(), 0));
}

std::shared_ptr<CudaEvent> NcclEngine::launch(
    ncclComm_t comm, const NcclCall& call,
    const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& enqueue) {
  Noted noted{comm, call, enqueue, events_->take()};
  const auto done = noted.done;
  if (groups_ > 0)
    noted_.push_back(std::move(noted));
  else
    launch_together({&noted, 1});
  return done;
}

void NcclEngine::close_group() {
  if (--groups_ > 0) return;
  std::vector<Noted> noted = std::exchange(noted_, {});
  for (std::size_t begin = 0, end = 0; begin < noted.size(); begin = end) {
    std::size_t bytes = 0;
    do bytes += noted[end++].call.bytes();
    while (end < noted.size() && bytes + noted[end].call.bytes() <= grouped_bytes);
    launch_together(std::span(noted).subspan(begin, end - begin));
  }
}

void NcclEngine::drop_group() {
  --groups_;
  noted_.clear();
}

void NcclEngine::require_launched(const CudaEvent& event) const {
  for (const Noted& noted : noted_)
    if (noted.done.get() == &event)
      throw std::logic_error(std::string(noted.call.function) +
                             " was waited for before its group was closed");
}

void NcclEngine::launch_together(std::span<Noted> calls) {
  std::vector<ncclComm_t> comms;
  for (const Noted& call : calls)
    if (std::find(comms.begin(), comms.end(), call.comm) == comms.end()) comms.push_back(call.comm);
  settle(comms, calls.front().call, [&] { return enqueue_together(calls); });
  for (const Noted& call : calls) SHARDMARK_CUDA(cudaEventRecord(call.done->get(), stream_.get()));
  const std::lock_guard lock(mutex_);
  if (in_flight_.empty()) progress_ = Clock::now();
  for (const Noted& call : calls) in_flight_.push_back({call.done, call.call});
}

ncclResult_t NcclEngine::enqueue_together(std::span<Noted> calls) {
  const auto enqueue = [&](const Noted& call) { return call.enqueue(call.comm, stream_.get()); };
  if (calls.size() == 1) return enqueue(calls.front());
  const auto went_well = [](ncclResult_t result) {
    return result == ncclSuccess || result == ncclInProgress;
  };
  ncclResult_t result = ncclGroupStart();
  if (!went_well(result)) return result;
  for (auto call = calls.begin(); call != calls.end() && went_well(result); ++call) result = enqueue(*call);
  const ncclResult_t ended = ncclGroupEnd();  // also after a failure, else the group stays open
  return went_well(result) ? ended : result;
}

cudaError_t NcclEngine::query(const CudaEvent& event) {
  const cudaError_t status = cudaEventQuery(event.get());
  if (status == cudaErrorNotReady) cudaGetLastError();
  return status;
}

void NcclEngine::block_until(const CudaEvent& event) {
  while (query(event) == cudaErrorNotReady) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_.empty()) return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void NcclEngine::check() {
  const std::lock_guard lock(mutex_);
  throw_if_failed();
}

namespace {

/// The first answer that is not success.
ncclResult_t state_of(std::span<const ncclComm_t> comms) {
  ncclResult_t result = ncclSuccess;
  for (auto comm = comms.begin(); comm != comms.end() && result == ncclSuccess; ++comm)
    SHARDMARK_NCCL(ncclCommGetAsyncError(*comm, &result));
  return result;
}

}  // namespace

void NcclEngine::settle(std::span<ncclComm_t> comms, const NcclCall& call,
                        const std::function<ncclResult_t()>& start) {
  const auto begin = Clock::now();
  std::unique_lock lock(mutex_);
  throw_if_failed();
  ncclResult_t result = start();
  for (int tries = 0; result == ncclInProgress; ++tries) {
    if (too_late(begin)) {
      fail(call.text() + " did not come about within " + std::to_string(timeout_) + " s");
    } else {
      lock.unlock();
      if (tries < 64) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      lock.lock();
    }
    throw_if_failed();
    result = state_of(comms);
  }
  if (result != ncclSuccess) fail(call.text() + ": " + nccl_text(result));
  throw_if_failed();
}

bool NcclEngine::too_late(Clock::time_point since) const {
  return timeout_ > 0 && std::chrono::duration<double>(Clock::now() - since).count() > timeout_;
}

void NcclEngine::watch() {
  cudaSetDevice(device_);  // else the questions below would open a context on the first one
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(50), [this] { return leaving_; })) look();
}

void NcclEngine::look() {
  while (!in_flight_.empty()) {
    const cudaError_t status = query(*in_flight_.front().done);
    if (status == cudaErrorNotReady) break;
    if (status != cudaSuccess)
      return fail(in_flight_.front().call.text() + ": CUDA: " + cudaGetErrorString(status));
    in_flight_.pop_front();
    progress_ = Clock::now();
  }
  for (ncclComm_t comm : open_) {
    ncclResult_t result = ncclSuccess;
    if (ncclCommGetAsyncError(comm, &result) == ncclSuccess && result != ncclSuccess &&
        result != ncclInProgress)
      return fail("asynchronous error: " + nccl_text(result));
  }
  if (!in_flight_.empty() && too_late(progress_))
    fail(in_flight_.front().call.text() + " did not end within " + std::to_string(timeout_) +
         " s: a rank is late, or the network is stuck");
}

void NcclEngine::throw_if_failed() const {
  if (!failure_.empty()) throw EnvironmentError(failure_);
}

void NcclEngine::fail(const std::string& reason) {
  if (failure_.empty()) failure_ = "NCCL: " + reason;
  for (ncclComm_t comm : open_) ncclCommAbort(comm);
  open_.clear();
  in_flight_.clear();
}

}  // namespace shardmark
#endif
