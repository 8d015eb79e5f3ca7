// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/staged.hpp"

#include <utility>

#include "comm/mpi_call.hpp"
#include "core/runtime.hpp"

namespace shardmark {

namespace {

Vector<char> on_device(void* data, std::size_t begin, std::size_t bytes) {
  return Vector<char>(static_cast<char*>(data) + begin, bytes);
}
HostVector<char> on_host(char* data, std::size_t begin, std::size_t bytes) {
  return HostVector<char>(data + begin, bytes);
}

/// Asks MPI first: where it can't, the attempt may crash. Then with real data, since it may say so and be
/// wrong. Collective.
bool reads_device_memory(Communicator& world) {
  if (world.host_max(mpi_is_gpu_aware() ? 0 : 1) > 0) return false;
  constexpr std::size_t slice_size = 1000;
  const Exec exec;
  const auto data = world.allocate<float>(slice_size * world.size(), "shardmark::staged::probe");
  Kokkos::deep_copy(exec, data.view, static_cast<float>(world.rank() + 1));
  world.start_all_gather(exec, data.view).wait();
  const auto host = Kokkos::create_mirror_view(Kokkos::HostSpace(), data.view);
  Kokkos::deep_copy(exec, host, data.view);
  fence(exec, "shardmark::staged::reads_device_memory: the host looks at the result");
  int wrong = 0;
  for (std::size_t i = 0; i < host.extent(0); ++i) wrong += host(i) != static_cast<float>(i / slice_size + 1);
  return world.host_max(wrong) == 0;
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_world(std::shared_ptr<MpiShared> shared, Staging staging) {
  const MPI_Comm comm = MPI_Comm_f2c(Runtime::mpi_world());
  if (staging == Staging::always) return std::make_unique<StagedCommunicator>(comm, std::move(shared));
  auto direct = std::make_unique<MpiCommunicator>(comm, shared);
  if (exec_is_host) return direct;
  const bool reads = reads_device_memory(*direct);
  if (staging == Staging::automatic)
    return std::make_unique<StagedCommunicator>(comm, std::move(shared), reads);
  if (!reads)
    throw Error(ExitCode::environment,
                "this MPI does not read device memory, and comm.staging = \"never\" forbids copies through "
                "host memory; valid: auto, always",
                true);
  return direct;
}

/// Holds the buffer until the result is where it belongs.
struct StagedCommunicator::Work final : Pending::Work {
  Work(const Exec& exec, std::shared_ptr<Buffer> buffer, std::size_t begin, const Vector<char>& result,
       Pending pending)
      : exec_(exec),
        buffer_(std::move(buffer)),
        begin_(begin),
        result_(result),
        pending_(std::move(pending)) {}

  void wait() override {
    pending_.wait();
    Kokkos::deep_copy(exec_, result_, on_host(buffer_->data(), begin_, result_.extent(0)));
    fence(exec_, "shardmark::staged::wait: the buffer is free for the next collective");
  }

 private:
  Exec exec_;
  std::shared_ptr<Buffer> buffer_;
  std::size_t begin_;  ///< of the result in the buffer
  Vector<char> result_;
  Pending pending_;  ///< the first to go: it holds the buffer
};

std::unique_ptr<Communicator> StagedCommunicator::split(int color, int key) const {
  MPI_Comm part;
  SHARDMARK_MPI(MPI_Comm_split(MPI_Comm_f2c(mpi_handle()), color, key, &part));
  const Handle<MpiCommTraits> owner(part);
  return std::make_unique<StagedCommunicator>(part, shared_all_, sums_only_);
}

std::shared_ptr<StagedCommunicator::Buffer> StagedCommunicator::lease(std::size_t bytes) {
  for (auto& buffer : buffers_) {
    if (buffer.use_count() > 1) continue;
    if (buffer->extent(0) < bytes) {
      buffer.reset();  // first, so that both are never there
      buffer = std::make_shared<Buffer>(
          Kokkos::view_alloc("shardmark::staged::buffer", Kokkos::WithoutInitializing), bytes);
    }
    return buffer;
  }
  return buffers_.emplace_back(std::make_shared<Buffer>(
      Kokkos::view_alloc("shardmark::staged::buffer", Kokkos::WithoutInitializing), bytes));
}

Pending StagedCommunicator::all_gather(const Exec& exec, void* whole, std::size_t slice, Dtype dtype) {
  if (slice == 0 || size() == 1) return {};
  if (sums_only_) {
    MpiCommunicator::make_ready(exec);
    return MpiCommunicator::all_gather(exec, whole, slice, dtype);
  }
  const std::size_t bytes = slice * size_of(dtype), begin = rank() * bytes;
  const auto buffer = lease(bytes * size());
  Kokkos::deep_copy(exec, on_host(buffer->data(), begin, bytes), on_device(whole, begin, bytes));
  fence(exec, "shardmark::staged::all_gather: MPI reads the copy");
  Pending pending = MpiCommunicator::all_gather(exec, buffer->data(), slice, dtype);
  return Pending(
      std::make_unique<Work>(exec, buffer, 0, on_device(whole, 0, bytes * size()), std::move(pending)));
}

Pending StagedCommunicator::reduce_scatter(const Exec& exec, void* whole, void* out, std::size_t slice,
                                           Dtype dtype) {
  if (slice == 0 || size() == 1) return MpiCommunicator::reduce_scatter(exec, whole, out, slice, dtype);
  const std::size_t bytes = slice * size_of(dtype), begin = rank() * bytes;
  const auto buffer = lease(bytes * size());
  Kokkos::deep_copy(exec, on_host(buffer->data(), 0, bytes * size()), on_device(whole, 0, bytes * size()));
  fence(exec, "shardmark::staged::reduce_scatter: MPI reads the copy");
  Pending pending =
      MpiCommunicator::reduce_scatter(exec, buffer->data(), buffer->data() + begin, slice, dtype);
  return Pending(std::make_unique<Work>(exec, buffer, begin, on_device(out, 0, bytes), std::move(pending)));
}

Pending StagedCommunicator::all_reduce(const Exec& exec, void* data, std::size_t n, Dtype dtype,
                                       Reduction op) {
  if (n == 0 || size() == 1) return MpiCommunicator::all_reduce(exec, data, n, dtype, op);
  const auto device = on_device(data, 0, n * size_of(dtype));
  const auto buffer = lease(device.extent(0));
  Kokkos::deep_copy(exec, on_host(buffer->data(), 0, device.extent(0)), device);
  fence(exec, "shardmark::staged::all_reduce: MPI reads the copy");
  Pending pending = MpiCommunicator::all_reduce(exec, buffer->data(), n, dtype, op);
  return Pending(std::make_unique<Work>(exec, buffer, 0, device, std::move(pending)));
}

Pending StagedCommunicator::broadcast(const Exec& exec, void* data, std::size_t n, Dtype dtype, int root) {
  if (n == 0 || size() == 1) return {};
  if (sums_only_) {
    MpiCommunicator::make_ready(exec);
    return MpiCommunicator::broadcast(exec, data, n, dtype, root);
  }
  const auto device = on_device(data, 0, n * size_of(dtype));
  const auto buffer = lease(device.extent(0));
  if (rank() == root) {
    Kokkos::deep_copy(exec, on_host(buffer->data(), 0, device.extent(0)), device);
    fence(exec, "shardmark::staged::broadcast: MPI reads the copy");
  }
  Pending pending = MpiCommunicator::broadcast(exec, buffer->data(), n, dtype, root);
  return Pending(std::make_unique<Work>(exec, buffer, 0, device, std::move(pending)));
}

}  // namespace shardmark
