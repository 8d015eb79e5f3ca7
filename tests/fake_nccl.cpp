// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
//
// Stand-ins for NCCL and the CUDA runtime, which win over the libraries where they are linked into a test: so
// the back end runs where no device is. Streams do everything at once.
#include "fake_nccl.hpp"

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>

#include <cstring>

#include "core/runtime.hpp"

using shardmark::fake::state;

namespace shardmark::fake {
Fake& state() {
  static Fake fake;
  return fake;
}
}  // namespace shardmark::fake

struct ncclComm {
  MPI_Comm group = MPI_COMM_NULL;
  int rank = 0;
  int to_answer = 0;
};
namespace {
void note(const std::string& text) {
  state().log.push_back(text);
}
ncclResult_t answer(ncclComm_t comm) {
  comm->to_answer = state().slow_answers;
  return comm->to_answer > 0 ? ncclInProgress : ncclSuccess;
}
MPI_Datatype mpi_type(ncclDataType_t type) {
  return type == ncclFloat32 ? MPI_FLOAT : type == ncclFloat64 ? MPI_DOUBLE : MPI_INT32_T;
}
std::size_t bytes_of(ncclDataType_t type) {
  return type == ncclFloat64 ? 8 : type == ncclBfloat16 ? 2 : 4;
}
}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error";
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  note("stream " + std::to_string(flags) + " " + std::to_string(priority));
  *stream = reinterpret_cast<cudaStream_t>(new int(0));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<int*>(stream);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  ++state().made_events;
  ++state().open_events;
  *event = reinterpret_cast<cudaEvent_t>(new int(0));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  --state().open_events;
  delete reinterpret_cast<int*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t stream) {
  note(stream == nullptr ? "record on compute" : "record on nccl");
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  return state().hangs && state().aborted == 0 ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned) {
  note(stream == nullptr ? "compute waits" : "nccl waits");
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  note("copy");
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error" : "another error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id->internal, 0, sizeof id->internal);
  std::strcpy(id->internal + 1, "behind a zero");
  note("id");
  return ncclSuccess;
}
/// The test makes groups of all ranks, and of even and of odd ones in falling order.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (std::string(id.internal + 1) != "behind a zero" || config->blocking != 0) return ncclInvalidArgument;
  const MPI_Comm world = MPI_Comm_f2c(shardmark::Runtime::mpi_world());
  int world_rank = 0, world_size = 0;
  MPI_Comm_rank(world, &world_rank);
  MPI_Comm_size(world, &world_size);
  *comm = new ncclComm;
  (*comm)->rank = rank;
  std::vector<int> members;
  for (int r = 0; r < world_size && ranks == world_size; ++r) members.push_back(r);
  for (int r = world_size - 1; r >= 0 && ranks < world_size; --r)
    if (r % 2 == world_rank % 2) members.push_back(r);
  if (members.at(rank) != world_rank) return ncclInvalidArgument;
  MPI_Group all, some;
  MPI_Comm_group(world, &all);
  MPI_Group_incl(all, ranks, members.data(), &some);
  MPI_Comm_create_group(world, some, ranks, &(*comm)->group);
  MPI_Group_free(&all);
  MPI_Group_free(&some);
  note("init " + std::to_string(rank) + " of " + std::to_string(ranks));
  return answer(*comm);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  *result = ncclSuccess;
  if (comm->to_answer > 0) {
    --comm->to_answer;
    *result = ncclInProgress;
  } else if (state().fails_later) {
    *result = ncclRemoteError;
  }
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return answer(comm);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  MPI_Comm_free(&comm->group);
  delete comm;
  ++state().destroyed;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  ++state().aborted;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  note("group");
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  note("group end");
  if (state().group_fails) return ncclSystemError;
  return state().slow_answers > 0 ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t) {
  note("all-gather");
  const auto bytes = count * bytes_of(type);
  if (send != static_cast<char*>(receive) + comm->rank * bytes) return ncclInvalidArgument;
  if (state().hangs) return ncclSuccess;
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, receive, static_cast<int>(bytes), MPI_BYTE, comm->group);
  return answer(comm);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  note("reduce-scatter");
  if (op != ncclSum) return ncclInvalidArgument;
  std::vector<char> result(count * bytes_of(type));
  MPI_Reduce_scatter_block(send, result.data(), static_cast<int>(count), mpi_type(type), MPI_SUM,
                           comm->group);
  std::memcpy(receive, result.data(), result.size());
  return answer(comm);
}
ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  note("all-reduce");
  if (send != receive) return ncclInvalidArgument;
  MPI_Allreduce(MPI_IN_PLACE, receive, static_cast<int>(count), mpi_type(type),
                op == ncclMax ? MPI_MAX : MPI_SUM, comm->group);
  return answer(comm);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t) {
  note("broadcast");
  if (send != receive) return ncclInvalidArgument;
  MPI_Bcast(receive, static_cast<int>(count * bytes_of(type)), MPI_BYTE, root, comm->group);
  return answer(comm);
}

}  // extern "C"
