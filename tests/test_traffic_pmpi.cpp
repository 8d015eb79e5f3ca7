// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "small_run.hpp"
#include "train/ledger.hpp"

// What the program says that it moves, against what passes the door of MPI: this executable's own MPI
// functions count, and go on to MPI's by their profiling names.
namespace {

struct Passed {
  std::mutex mutex;  // the worker comes here too
  // By collective and size of the communicator: bytes of the whole buffers, and of all-reduces what one call
  // sends by the convention of Traffic, which rounds each.
  std::map<int, std::uint64_t> all_gather, reduce_scatter, broadcast;
  std::uint64_t all_reduce = 0;
  std::uint64_t largest_elsewhere = 0;  ///< of one call that is not on a communicator for data
} passed;

bool carries_data(MPI_Comm comm) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  PMPI_Comm_get_name(comm, name, &length);
  return std::strcmp(name, "shardmark data") == 0;
}

std::uint64_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return static_cast<std::uint64_t>(count) * size;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

void pass(std::map<int, std::uint64_t>& kind, MPI_Comm comm, std::uint64_t bytes) {
  const std::lock_guard lock(passed.mutex);
  if (carries_data(comm)) {
    kind[size_of(comm)] += bytes;
  } else {
    passed.largest_elsewhere = std::max(passed.largest_elsewhere, bytes);
  }
}

void pass_all_reduce(MPI_Comm comm, std::uint64_t bytes) {
  const std::lock_guard lock(passed.mutex);
  const std::uint64_t P = size_of(comm);
  if (carries_data(comm)) {
    passed.all_reduce += 2 * (bytes * (P - 1) / P);
  } else {
    passed.largest_elsewhere = std::max(passed.largest_elsewhere, bytes);
  }
}

}  // namespace

// The functions of MPI's data collectives that the program could use, each as it is in mpi.h.
extern "C" {
int MPI_Allgather(const void* send, int n, MPI_Datatype type, void* out, int m, MPI_Datatype to, MPI_Comm c) {
  pass(passed.all_gather, c, bytes_of(m, to) * size_of(c));
  return PMPI_Allgather(send, n, type, out, m, to, c);
}
int MPI_Iallgather(const void* send, int n, MPI_Datatype type, void* out, int m, MPI_Datatype to, MPI_Comm c,
                   MPI_Request* request) {
  pass(passed.all_gather, c, bytes_of(m, to) * size_of(c));
  return PMPI_Iallgather(send, n, type, out, m, to, c, request);
}
int MPI_Reduce_scatter_block(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm c) {
  pass(passed.reduce_scatter, c, bytes_of(n, type) * size_of(c));
  return PMPI_Reduce_scatter_block(in, out, n, type, op, c);
}
int MPI_Ireduce_scatter_block(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm c,
                              MPI_Request* request) {
  pass(passed.reduce_scatter, c, bytes_of(n, type) * size_of(c));
  return PMPI_Ireduce_scatter_block(in, out, n, type, op, c, request);
}
int MPI_Reduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm c) {
  pass(passed.reduce_scatter, c, bytes_of(n, type));
  return PMPI_Reduce(in, out, n, type, op, root, c);
}
int MPI_Ireduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm c,
                MPI_Request* request) {
  pass(passed.reduce_scatter, c, bytes_of(n, type));
  return PMPI_Ireduce(in, out, n, type, op, root, c, request);
}
int MPI_Allreduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm c) {
  pass_all_reduce(c, bytes_of(n, type));
  return PMPI_Allreduce(in, out, n, type, op, c);
}
int MPI_Iallreduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm c,
                   MPI_Request* request) {
  pass_all_reduce(c, bytes_of(n, type));
  return PMPI_Iallreduce(in, out, n, type, op, c, request);
}
int MPI_Bcast(void* data, int n, MPI_Datatype type, int root, MPI_Comm c) {
  pass(passed.broadcast, c, bytes_of(n, type));
  return PMPI_Bcast(data, n, type, root, c);
}
int MPI_Ibcast(void* data, int n, MPI_Datatype type, int root, MPI_Comm c, MPI_Request* request) {
  pass(passed.broadcast, c, bytes_of(n, type));
  return PMPI_Ibcast(data, n, type, root, c, request);
}
}

namespace shardmark {
namespace {

// (P-1)/P of the buffers.
std::uint64_t sent(const std::map<int, std::uint64_t>& bytes_by_ranks) {
  std::uint64_t sum = 0;
  for (const auto& [ranks, bytes] : bytes_by_ranks) {
    EXPECT_EQ(bytes % ranks, 0u);
    sum += bytes / ranks * (ranks - 1);
  }
  return sum;
}

void forget() {
  passed.all_gather.clear();
  passed.reduce_scatter.clear();
  passed.broadcast.clear();
  passed.all_reduce = passed.largest_elsewhere = 0;
}

void expect_predicted_bytes(const Communicator& world, const std::vector<std::string>& overrides,
                            const std::string& name) {
  SmallRun<float> run(world, overrides);
  run.trainer->step();
  forget();
  run.trainer->step();
  const auto predicted = predict_traffic(run.config, run.trainer->plan());
  const auto bytes = [&](Collective kind) { return predicted[static_cast<std::size_t>(kind)].bytes; };
  EXPECT_EQ(sent(passed.all_gather), bytes(Collective::all_gather)) << name;
  EXPECT_EQ(sent(passed.reduce_scatter), bytes(Collective::reduce_scatter)) << name;
  EXPECT_EQ(passed.all_reduce, bytes(Collective::all_reduce)) << name;
  EXPECT_EQ(sent(passed.broadcast), bytes(Collective::broadcast)) << name;
  EXPECT_LE(passed.largest_elsewhere, 64u) << name << ": not a small sum";
}

const std::vector<std::vector<std::string>> models = {
    {}, {"model.kind=mlp", "model.sizes=[7,9,6,3]", "data.kind=teacher"}};

TEST(Traffic, PredictedBytesPassThroughMpi) {
  for (CommProgress progress : {CommProgress::wait, CommProgress::worker}) {
    const auto world = make_world_communicator("mpi", {.progress = progress});
    for (const auto& model : models) {
      for (const StrategyCase& c : strategy_cases(world->size())) {
        auto overrides = model;
        overrides.insert(overrides.end(), c.overrides.begin(), c.overrides.end());
        expect_predicted_bytes(*world, overrides, c.name);
      }
    }
  }
}

// Calls of at most 100 elements: the gathers and reductions of a unit go in many, and in all as many bytes.
TEST(Traffic, SplitCallsPassTheSameBytes) {
  for (CommProgress progress : {CommProgress::wait, CommProgress::worker}) {
    const auto world = make_world_communicator("mpi", {100, progress});
    expect_predicted_bytes(*world, {"parallel.strategy=zero3"}, "zero3");
    expect_predicted_bytes(*world, {"parallel.strategy=zero1"}, "zero1");
  }
}

// So that zero = zero above is not all that was compared.
TEST(Traffic, SeveralRanksMoveSomething) {
  const auto world = make_world_communicator("mpi");
  SmallRun<float> run(*world, {"parallel.strategy=zero3"});
  forget();
  run.trainer->step();
  EXPECT_EQ(sent(passed.all_gather) > 0, world->size() > 1);
  EXPECT_EQ(sent(passed.reduce_scatter) > 0, world->size() > 1);
  const TimeByKind times = measured_times(run.mesh);
  EXPECT_EQ(times[static_cast<int>(Collective::all_gather)].exposed > 0, world->size() > 1);
  EXPECT_EQ(times[static_cast<int>(Collective::all_reduce)].exposed, 0.0);
}

}  // namespace
}  // namespace shardmark
