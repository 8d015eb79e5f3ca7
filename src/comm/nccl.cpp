// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl.hpp"

#include <utility>

#include "comm/mesh.hpp"
#include "core/device.hpp"
#include "core/runtime.hpp"

#ifdef SHARDMARK_HAVE_NCCL
#include "comm/mpi_call.hpp"
#include "comm/nccl_call.hpp"
#include "core/cuda_call.hpp"
#endif

namespace shardmark {

#ifdef SHARDMARK_HAVE_NCCL

namespace {

/// The one place that asks Kokkos for the stream.
cudaStream_t stream_of([[maybe_unused]] const Exec& exec) {
#ifdef KOKKOS_ENABLE_CUDA
  return exec.cuda_stream();
#else
  return nullptr;
#endif
}

ncclDataType_t nccl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32:
      return ncclFloat32;
    case Dtype::fp64:
      return ncclFloat64;
    case Dtype::bf16:
      return ncclBfloat16;
    case Dtype::fp16:
      return ncclFloat16;
    case Dtype::int32:
      return ncclInt32;
    case Dtype::int64:
      return ncclInt64;
    case Dtype::uint64:
      return ncclUint64;
  }
  throw EnvironmentError("NCCL: a dtype without an NCCL type");
}

}  // namespace

/// A collective that was enqueued. It holds `exec`, whose stream is to wait for it.
struct NcclCommunicator::Work final : Pending::Work {
  Work(NcclEngine& engine, const Exec& exec, std::shared_ptr<CudaEvent> done)
      : engine_(engine), exec_(exec), done_(std::move(done)) {}
  ~Work() override {
    if (!waited_) engine_.block_until(*done_);
  }

  void wait() override { wait_on(exec_); }
  void wait_on(const Exec& exec) override {
    engine_.check();
    engine_.require_launched(*done_);
    SHARDMARK_CUDA(cudaStreamWaitEvent(stream_of(exec), done_->get(), 0));
    waited_ = true;
  }
  bool done() const override { return NcclEngine::query(*done_) == cudaSuccess; }

 private:
  NcclEngine& engine_;
  Exec exec_;
  std::shared_ptr<CudaEvent> done_;
  bool waited_ = false;
};

NcclCommunicator::NcclCommunicator(MPI_Comm comm, std::shared_ptr<MpiShared> shared,
                                   std::shared_ptr<NcclEngine> engine)
    : MpiCommunicator(comm, shared), shared_(std::move(shared)), engine_(std::move(engine)) {}

NcclCommunicator::~NcclCommunicator() {
  if (nccl_ != nullptr) engine_->close(nccl_);
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key) const {
  MPI_Comm part;
  SHARDMARK_MPI(MPI_Comm_split(MPI_Comm_f2c(mpi_handle()), color, key, &part));
  const Handle<MpiCommTraits> owner(part);
  return std::make_unique<NcclCommunicator>(part, shared_, engine_);
}

void NcclCommunicator::make_ready(const Exec& exec) {
  if (size() == 1) return;
  if (nccl_ == nullptr) {
    const std::string id = host_broadcast(rank() == 0 ? NcclEngine::make_id() : "", 0);
    nccl_ = engine_->open(id, size(), rank());
  }
  engine_->follow(stream_of(exec));
}

template <class Enqueue>
Pending NcclCommunicator::launch(const Exec& exec, const char* function, std::size_t count, Dtype dtype,
                                 Enqueue enqueue) {
  auto done = engine_->launch(nccl_, {function, count, dtype, size()}, enqueue);
  return Pending(std::make_unique<Work>(*engine_, exec, std::move(done)));
}

Pending NcclCommunicator::all_gather(const Exec& exec, void* whole, std::size_t slice, Dtype dtype) {
  if (slice == 0 || size() == 1) return {};
  const void* own = static_cast<char*>(whole) + rank() * slice * size_of(dtype);
  return launch(exec, "ncclAllGather", slice, dtype, [=](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllGather(own, whole, slice, nccl_type(dtype), comm, stream);
  });
}

// NCCL's in-place form is ours: the result replaces the rank's own slice.
Pending NcclCommunicator::reduce_scatter(const Exec& exec, void* whole, void* out, std::size_t slice,
                                         Dtype dtype) {
  if (slice == 0) return {};
  if (size() == 1) {
    if (out != whole)
      SHARDMARK_CUDA(
          cudaMemcpyAsync(out, whole, slice * size_of(dtype), cudaMemcpyDeviceToDevice, stream_of(exec)));
    return {};
  }
  return launch(exec, "ncclReduceScatter", slice, dtype, [=](ncclComm_t comm, cudaStream_t stream) {
    return ncclReduceScatter(whole, out, slice, nccl_type(dtype), ncclSum, comm, stream);
  });
}

Pending NcclCommunicator::all_reduce(const Exec& exec, void* data, std::size_t n, Dtype dtype, Reduction op) {
  if (n == 0 || size() == 1) return {};
  return launch(exec, "ncclAllReduce", n, dtype, [=](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(data, data, n, nccl_type(dtype), op == Reduction::max ? ncclMax : ncclSum, comm,
                         stream);
  });
}

Pending NcclCommunicator::broadcast(const Exec& exec, void* data, std::size_t n, Dtype dtype, int root) {
  if (n == 0 || size() == 1) return {};
  return launch(exec, "ncclBroadcast", n, dtype, [=](ncclComm_t comm, cudaStream_t stream) {
    return ncclBroadcast(data, data, n, nccl_type(dtype), root, comm, stream);
  });
}

std::string nccl_version() {
  int version = 0;
  SHARDMARK_NCCL(ncclGetVersion(&version));
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::unique_ptr<Communicator> make_nccl_world(std::shared_ptr<MpiShared> shared, double timeout) {
  if (exec_is_host)
    throw DeckError(std::string("comm.backend = \"nccl\" is for device memory, but this build computes in "
                                "host memory (") +
                    Exec::name() + "); valid: auto, mpi, or a build with CUDA");
  auto world = std::make_unique<NcclCommunicator>(MPI_Comm_f2c(Runtime::mpi_world()), std::move(shared),
                                                  std::make_shared<NcclEngine>(timeout));
  require_own_devices(*world, device_uuid(), false);
  return world;
}

#else

std::string nccl_version() {
  return "";
}

std::unique_ptr<Communicator> make_nccl_world(std::shared_ptr<MpiShared>, double) {
  throw DeckError(
      "comm.backend = \"nccl\": this program was built without NCCL; valid: auto, mpi, or a build with "
      "-DSHARDMARK_NCCL=ON");
}

#endif

}  // namespace shardmark
