// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi.hpp"

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "comm/mpi_call.hpp"
#include "comm/node_layout.hpp"

namespace shardmark {

MPI_Datatype mpi_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32:
      return MPI_FLOAT;
    case Dtype::fp64:
      return MPI_DOUBLE;
    case Dtype::bf16:
    case Dtype::fp16:
      return MPI_UINT16_T;
    case Dtype::int32:
      return MPI_INT32_T;
    case Dtype::int64:
      return MPI_INT64_T;
    case Dtype::uint64:
      return MPI_UINT64_T;
  }
  throw EnvironmentError("MPI: a dtype without an MPI type");
}

Handle<MpiTypeTraits> strided_chunk(int count, std::size_t slice, Dtype dtype) {
  MPI_Datatype chunk, strided;
  SHARDMARK_MPI(MPI_Type_contiguous(count, mpi_type(dtype), &chunk));
  const Handle<MpiTypeTraits> chunk_owner(chunk);
  SHARDMARK_MPI(MPI_Type_create_resized(chunk, 0, static_cast<MPI_Aint>(slice * size_of(dtype)), &strided));
  Handle<MpiTypeTraits> owner(strided);
  SHARDMARK_MPI(MPI_Type_commit(&strided));
  return owner;
}

namespace {

Handle<MpiCommTraits> duplicate(MPI_Comm comm, const char* name) {
  MPI_Comm copy;
  SHARDMARK_MPI(MPI_Comm_dup(comm, &copy));
  Handle<MpiCommTraits> owner(copy);
  SHARDMARK_MPI(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
  SHARDMARK_MPI(MPI_Comm_set_name(copy, name));
  return owner;
}

}  // namespace

/// Requests of one collective; afterwards the result is moved to its place where MPI put it elsewhere.
struct MpiCommunicator::Requests final : Pending::Work {
  std::vector<MPI_Request> open;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;

  MPI_Request* add() { return &open.emplace_back(MPI_REQUEST_NULL); }
  ~Requests() override { MPI_Waitall(static_cast<int>(open.size()), open.data(), MPI_STATUSES_IGNORE); }

  void wait() override {
    auto requests = std::exchange(open, {});
    SHARDMARK_MPI(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
    finish();
  }

  /// wait() for a thread beside those that compute. MPI_Waitall spins, which costs them much where a peer is
  /// late and no core is free; short sleeps cost the collective little.
  void wait_aside() {
    auto requests = std::exchange(open, {});
    for (int tries = 0, done = 0; true; ++tries) {
      SHARDMARK_MPI(
          MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
      if (done) break;
      if (tries < 64) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
    finish();
  }

 private:
  void finish() {
    if (from != to) std::memmove(to, from, bytes);
  }
};

template <class Issue>
Pending MpiCommunicator::start(Issue issue) {
  if (shared_->worker) {
    return Pending(shared_->worker->start([issue] {
      Requests requests;
      issue(requests);
      requests.wait_aside();
    }));
  }
  auto requests = std::make_unique<Requests>();
  issue(*requests);
  return Pending(std::move(requests));
}

MpiCommunicator::MpiCommunicator(MPI_Comm comm, std::shared_ptr<MpiShared> shared)
    : shared_(std::move(shared)),
      comm_(duplicate(comm, "shardmark host")),
      data_(duplicate(comm, "shardmark data")) {
  SHARDMARK_MPI(MPI_Comm_rank(comm_.get(), &rank_));
  SHARDMARK_MPI(MPI_Comm_size(comm_.get(), &size_));
}

int MpiCommunicator::ranks_on_node() const {
  int size = 0;
  SHARDMARK_MPI(MPI_Comm_size(node_part(comm_.get(), *shared_).get(), &size));
  return size;
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) const {
  MPI_Comm part;
  SHARDMARK_MPI(MPI_Comm_split(comm_.get(), color, key, &part));
  const Handle<MpiCommTraits> owner(part);
  return make_group(part, shared_);
}

void MpiCommunicator::barrier() const {
  SHARDMARK_MPI(MPI_Barrier(comm_.get()));
}

std::string MpiCommunicator::host_broadcast(const std::string& text, int root) const {
  std::uint64_t length = text.size();
  SHARDMARK_MPI(MPI_Bcast(&length, 1, MPI_UINT64_T, root, comm_.get()));
  std::string result = rank_ == root ? text : std::string(length, '\0');
  in_chunks(length, [&](std::size_t begin, int count) {
    SHARDMARK_MPI(MPI_Bcast(result.data() + begin, count, MPI_CHAR, root, comm_.get()));
  });
  return result;
}

std::vector<std::string> MpiCommunicator::host_gather(const std::string& text) const {
  std::vector<std::string> texts(size_);
  for (int root = 0; root < size_; ++root) texts[root] = host_broadcast(text, root);
  return texts;
}

std::shared_ptr<void> MpiCommunicator::allocate_bytes(std::size_t bytes, const std::string& label,
                                                      CommMemory kind) {
  if (kind == CommMemory::common)
    throw std::logic_error("communicator: " + backend() + " has no common memory");
  auto memory = std::make_shared<OwnedVector<char>>(shardmark::allocate<char>(label, bytes));
  return {memory, memory->data()};
}

MPI_Op MpiCommunicator::op_of(Dtype dtype, Reduction op) const {
  const bool small = dtype == Dtype::bf16 || dtype == Dtype::fp16;
  if (op == Reduction::max) {
    if (small) throw EnvironmentError("MPI: the maximum of 16-bit floats is not offered");
    return MPI_MAX;
  }
  if (!small) return MPI_SUM;
  return (dtype == Dtype::bf16 ? shared_->bf16_sum : shared_->fp16_sum).get();
}

void MpiCommunicator::make_ready(const Exec& exec) {
  if (size_ == 1) return;  // nobody reads
  fence(exec, "shardmark::mpi::make_ready: MPI reads what kernels wrote");
}

Pending MpiCommunicator::all_gather(const Exec&, void* whole, std::size_t slice, Dtype dtype) {
  if (slice == 0 || size_ == 1) return {};
  return start([=, this](Requests& requests) {
    in_chunks(slice, [&](std::size_t begin, int count) {
      const auto strided = strided_chunk(count, slice, dtype);
      SHARDMARK_MPI(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, at(whole, begin, dtype), 1,
                                   strided.get(), data_.get(), requests.add()));
    });
  });
}

Pending MpiCommunicator::reduce_scatter(const Exec& exec, void* whole, void* out, std::size_t slice,
                                        Dtype dtype) {
  if (slice == 0) return {};
  if (size_ == 1) {
    const std::size_t bytes = slice * size_of(dtype);
    if (out != whole)
      Kokkos::deep_copy(exec, Vector<char>(static_cast<char*>(out), bytes),
                        Vector<char>(static_cast<char*>(whole), bytes));
    return {};
  }
  const MPI_Datatype type = mpi_type(dtype);
  const MPI_Op op = op_of(dtype, Reduction::sum);
  return start([=, this](Requests& requests) {
    char* own = at(whole, rank_ * slice, dtype);
    const bool in_place = out == own;
    const auto move_afterwards = [&](const void* from, void* to) {
      requests.from = from;
      requests.to = to;
      requests.bytes = slice * size_of(dtype);
    };
    if (slice * size_ <= shared_->largest_count && (!in_place || buffers_on_host())) {
      // MPI's own in-place form leaves the result at the start of the buffer, from where the host moves it.
      SHARDMARK_MPI(MPI_Ireduce_scatter_block(in_place ? MPI_IN_PLACE : whole, in_place ? whole : out,
                                              static_cast<int>(slice), type, op, data_.get(),
                                              requests.add()));
      if (in_place) move_afterwards(whole, own);
    } else {
      for (int root = 0; root < size_; ++root) {
        in_chunks(slice, [&](std::size_t begin, int count) {
          void* send = at(whole, root * slice + begin, dtype);
          if (root == rank_ && in_place) send = MPI_IN_PLACE;
          SHARDMARK_MPI(
              MPI_Ireduce(send, at(out, begin, dtype), count, type, op, root, data_.get(), requests.add()));
        });
      }
    }
  });
}

Pending MpiCommunicator::all_reduce(const Exec&, void* data, std::size_t n, Dtype dtype, Reduction op) {
  const MPI_Datatype type = mpi_type(dtype);
  const MPI_Op mpi_op = op_of(dtype, op);
  if (n == 0 || size_ == 1) return {};
  return start([=, this](Requests& requests) {
    in_chunks(n, [&](std::size_t begin, int count) {
      SHARDMARK_MPI(MPI_Iallreduce(MPI_IN_PLACE, at(data, begin, dtype), count, type, mpi_op, data_.get(),
                                   requests.add()));
    });
  });
}

Pending MpiCommunicator::broadcast(const Exec&, void* data, std::size_t n, Dtype dtype, int root) {
  if (n == 0 || size_ == 1) return {};
  return start([=, this](Requests& requests) {
    in_chunks(n, [&](std::size_t begin, int count) {
      SHARDMARK_MPI(
          MPI_Ibcast(at(data, begin, dtype), count, mpi_type(dtype), root, data_.get(), requests.add()));
    });
  });
}

void MpiCommunicator::host_all_reduce_bytes(void* data, std::size_t n, Dtype dtype, Reduction op) const {
  in_chunks(n, [&](std::size_t begin, int count) {
    SHARDMARK_MPI(MPI_Allreduce(MPI_IN_PLACE, at(data, begin, dtype), count, mpi_type(dtype),
                                op_of(dtype, op), comm_.get()));
  });
}

}  // namespace shardmark
