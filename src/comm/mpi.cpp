// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "comm/mpi_call.hpp"

namespace shardmark {

namespace {

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

template <class Small>
void add_small_floats(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const Small*>(in);
  auto* b = static_cast<Small*>(inout);
  for (int i = 0; i < *count; ++i) b[i] = Small::from(a[i].to_float() + b[i].to_float());
}

template <class Small>
Handle<MpiOpTraits> make_sum() {
  MPI_Op op;
  SHARDMARK_MPI(MPI_Op_create(&add_small_floats<Small>, /*commute=*/1, &op));
  return Handle<MpiOpTraits>(op);
}

/// Requests of one collective; afterwards the result is moved to its place where MPI put it elsewhere.
struct MpiWork final : Pending::Work {
  std::vector<MPI_Request> requests;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;

  MPI_Request* add() { return &requests.emplace_back(MPI_REQUEST_NULL); }
  void wait() override {
    SHARDMARK_MPI(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
    if (from != to) std::memmove(to, from, bytes);
  }
};

char* at(void* data, std::size_t element, Dtype dtype) {
  return static_cast<char*>(data) + element * size_of(dtype);
}

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm comm, std::size_t largest_count) : largest_count_(largest_count) {
  MPI_Comm duplicate;
  SHARDMARK_MPI(MPI_Comm_dup(comm, &duplicate));
  comm_ = Handle<MpiCommTraits>(duplicate);
  SHARDMARK_MPI(MPI_Comm_set_errhandler(duplicate, MPI_ERRORS_RETURN));
  SHARDMARK_MPI(MPI_Comm_rank(duplicate, &rank_));
  SHARDMARK_MPI(MPI_Comm_size(duplicate, &size_));
  sums_ = std::make_shared<const SmallFloatSums>(SmallFloatSums{make_sum<bf16>(), make_sum<fp16>()});
}

int MpiCommunicator::ranks_on_node() const {
  MPI_Comm node;
  SHARDMARK_MPI(MPI_Comm_split_type(comm_.get(), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node));
  const Handle<MpiCommTraits> owner(node);
  int size = 0;
  SHARDMARK_MPI(MPI_Comm_size(node, &size));
  return size;
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) const {
  MPI_Comm part;
  SHARDMARK_MPI(MPI_Comm_split(comm_.get(), color, key, &part));
  const Handle<MpiCommTraits> owner(part);
  return std::make_unique<MpiCommunicator>(part, largest_count_);
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

std::shared_ptr<void> MpiCommunicator::allocate_bytes(std::size_t bytes, const std::string& label) {
  auto memory = std::make_shared<OwnedVector<char>>(shardmark::allocate<char>(label, bytes));
  return {memory, memory->data()};
}

template <class F>
void MpiCommunicator::in_chunks(std::size_t n, F f) const {
  for (std::size_t begin = 0; begin < n; begin += largest_count_)
    f(begin, static_cast<int>(std::min(largest_count_, n - begin)));
}

MPI_Op MpiCommunicator::op_of(Dtype dtype, Reduction op) const {
  const bool small = dtype == Dtype::bf16 || dtype == Dtype::fp16;
  if (op == Reduction::max) {
    if (small) throw EnvironmentError("MPI: the maximum of 16-bit floats is not offered");
    return MPI_MAX;
  }
  if (!small) return MPI_SUM;
  return dtype == Dtype::bf16 ? sums_->bf16.get() : sums_->fp16.get();
}

Pending MpiCommunicator::all_gather(const Exec& exec, void* whole, std::size_t slice, Dtype dtype) {
  if (slice == 0 || size_ == 1) return {};
  fence(exec, "shardmark::mpi::all_gather: MPI reads what kernels wrote");
  auto work = std::make_unique<MpiWork>();
  const MPI_Datatype type = mpi_type(dtype);
  in_chunks(slice, [&](std::size_t begin, int count) {
    // One element of this type is a rank's chunk, and the next rank's lies a whole slice further.
    MPI_Datatype chunk, strided;
    SHARDMARK_MPI(MPI_Type_contiguous(count, type, &chunk));
    const Handle<MpiTypeTraits> chunk_owner(chunk);
    SHARDMARK_MPI(MPI_Type_create_resized(chunk, 0, static_cast<MPI_Aint>(slice * size_of(dtype)), &strided));
    const Handle<MpiTypeTraits> strided_owner(strided);
    SHARDMARK_MPI(MPI_Type_commit(&strided));
    SHARDMARK_MPI(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, at(whole, begin, dtype), 1, strided,
                                 comm_.get(), work->add()));
  });
  return Pending(std::move(work));
}

Pending MpiCommunicator::reduce_scatter(const Exec& exec, void* whole, void* out, std::size_t slice,
                                        Dtype dtype) {
  if (slice == 0) return {};
  fence(exec, "shardmark::mpi::reduce_scatter: MPI reads what kernels wrote");
  auto work = std::make_unique<MpiWork>();
  const MPI_Datatype type = mpi_type(dtype);
  const MPI_Op op = op_of(dtype, Reduction::sum);
  char* own = at(whole, rank_ * slice, dtype);
  const bool in_place = out == own;
  if (size_ == 1) {
    work->from = own;
    work->to = out;
    work->bytes = slice * size_of(dtype);
  } else if (slice * size_ <= largest_count_) {
    // MPI's own in-place form leaves the result at the start of the buffer.
    const int count = static_cast<int>(slice);
    SHARDMARK_MPI(MPI_Ireduce_scatter_block(in_place ? MPI_IN_PLACE : whole, in_place ? whole : out, count,
                                            type, op, comm_.get(), work->add()));
    if (in_place) {
      work->from = whole;
      work->to = own;
      work->bytes = slice * size_of(dtype);
    }
  } else {
    for (int root = 0; root < size_; ++root) {
      in_chunks(slice, [&](std::size_t begin, int count) {
        void* send = at(whole, root * slice + begin, dtype);
        void* receive = at(out, begin, dtype);
        if (root == rank_ && in_place) send = MPI_IN_PLACE;
        SHARDMARK_MPI(MPI_Ireduce(send, receive, count, type, op, root, comm_.get(), work->add()));
      });
    }
  }
  return Pending(std::move(work));
}

Pending MpiCommunicator::all_reduce(const Exec& exec, void* data, std::size_t n, Dtype dtype, Reduction op) {
  if (n == 0 || size_ == 1) return {};
  fence(exec, "shardmark::mpi::all_reduce: MPI reads what kernels wrote");
  auto work = std::make_unique<MpiWork>();
  in_chunks(n, [&](std::size_t begin, int count) {
    SHARDMARK_MPI(MPI_Iallreduce(MPI_IN_PLACE, at(data, begin, dtype), count, mpi_type(dtype),
                                 op_of(dtype, op), comm_.get(), work->add()));
  });
  return Pending(std::move(work));
}

Pending MpiCommunicator::broadcast(const Exec& exec, void* data, std::size_t n, Dtype dtype, int root) {
  if (n == 0 || size_ == 1) return {};
  fence(exec, "shardmark::mpi::broadcast: MPI reads what kernels wrote");
  auto work = std::make_unique<MpiWork>();
  in_chunks(n, [&](std::size_t begin, int count) {
    SHARDMARK_MPI(MPI_Ibcast(at(data, begin, dtype), count, mpi_type(dtype), root, comm_.get(), work->add()));
  });
  return Pending(std::move(work));
}

void MpiCommunicator::host_all_reduce_bytes(void* data, std::size_t n, Dtype dtype, Reduction op) const {
  in_chunks(n, [&](std::size_t begin, int count) {
    SHARDMARK_MPI(MPI_Allreduce(MPI_IN_PLACE, at(data, begin, dtype), count, mpi_type(dtype),
                                op_of(dtype, op), comm_.get()));
  });
}

std::string mpi_library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  SHARDMARK_MPI(MPI_Get_library_version(text, &length));
  const std::string version(text, length);
  return version.substr(0, version.find_first_of(std::string_view("\n\0", 2)));
}

std::string mpi_io_component() {
  const std::string path =
      std::filesystem::temp_directory_path() / ("shardmark-io-" + std::to_string(getpid()));
  MPI_File file;
  const int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
  if (MPI_File_open(MPI_COMM_SELF, path.c_str(), mode, MPI_INFO_NULL, &file) != MPI_SUCCESS) return "unknown";
  MPI_Info info;
  SHARDMARK_MPI(MPI_File_get_info(file, &info));
  int keys = 0;
  SHARDMARK_MPI(MPI_Info_get_nkeys(info, &keys));
  std::string component = mpi_library_version().find("Open MPI") != std::string::npos ? "ompio" : "unknown";
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = "";
    SHARDMARK_MPI(MPI_Info_get_nthkey(info, i, key));
    if (std::string(key).rfind("romio", 0) == 0) component = "romio";
  }
  SHARDMARK_MPI(MPI_Info_free(&info));
  SHARDMARK_MPI(MPI_File_close(&file));
  return component;
}

std::vector<std::string> comm_backends() {
  return {"mpi"};
}

std::unique_ptr<Communicator> make_world_communicator(const std::string& backend, std::size_t largest_count) {
  if (backend == "mpi") return std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, largest_count);
  throw DeckError("comm.backend = \"" + backend + "\" is unknown; valid: mpi");
}

}  // namespace shardmark
