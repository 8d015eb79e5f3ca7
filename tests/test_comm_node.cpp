// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "comm/host_reduce.hpp"
#include "comm/mesh.hpp"
#include "core/precision.hpp"
#include "train/ledger.hpp"

namespace shardmark {
namespace {

class Node : public testing::Test {
 protected:
  void SetUp() override {
    if (!exec_is_host) GTEST_SKIP() << "the node back end is for builds that compute on the host";
  }
  static std::unique_ptr<Communicator> world(int ranks_per_node = 0,
                                             CommProgress progress = CommProgress::wait) {
    return make_world_communicator("node", {.progress = progress, .ranks_per_node = ranks_per_node});
  }
  const Exec exec{};
};

// Numbers whose sums depend on the order of the terms.
template <class T>
T uneven(int rank, std::size_t i) {
  return static_cast<T>((rank % 2 == 0 ? 1.0f : -0.9f) * (1 + 1.0f / static_cast<float>(3 + i + 7 * rank)) *
                        static_cast<float>(1 << (3 * rank % 11)));
}

// One order of terms, that of the ranks; 16-bit floats are added up in float and rounded once.
template <class T>
void expect_sum_in_order_of_ranks(Communicator& comm, std::size_t slice) {
  const Exec exec{};
  auto whole = comm.allocate<T>(slice * comm.size(), "shardmark::test::whole");
  for (std::size_t i = 0; i < whole.view.extent(0); ++i) whole.view(i) = uneven<T>(comm.rank(), i);
  auto part = comm.allocate<T>(slice, "shardmark::test::slice");
  comm.start_reduce_scatter(exec, whole.view, part.view).wait();
  for (std::size_t i = 0; i < slice; ++i) {
    const std::size_t element = comm.rank() * slice + i;
    Wide<T> sum = uneven<T>(0, element);
    for (int r = 1; r < comm.size(); ++r) sum += static_cast<Wide<T>>(uneven<T>(r, element));
    const T expected = sum, got = part.view(i);
    ASSERT_EQ(std::memcmp(&expected, &got, sizeof(T)), 0) << "element " << i << " of " << slice;
  }
}

TEST_F(Node, SumsInTheOrderOfRanksAndRoundsOnce) {
  for (CommProgress progress : {CommProgress::wait, CommProgress::worker}) {
    const auto comm = world(0, progress);
    for (std::size_t slice : {1, 63, 1025, 4099}) {
      expect_sum_in_order_of_ranks<float>(*comm, slice);
      expect_sum_in_order_of_ranks<double>(*comm, slice);
      expect_sum_in_order_of_ranks<bf16>(*comm, slice);
      expect_sum_in_order_of_ranks<fp16>(*comm, slice);
    }
  }
}

TEST_F(Node, TellsWhatEachGroupHas) {
  const int P = world()->size();
  EXPECT_EQ(world()->backend(), P == 1 ? "mpi" : "node");
  EXPECT_EQ(make_world_communicator("auto")->backend(), P == 1 ? "mpi" : "node");
  EXPECT_EQ(make_world_communicator("mpi")->backend(), "mpi");
  if (P == 1) return;
  const auto pairs = world(2);
  EXPECT_EQ(pairs->ranks_on_node(), P % 2 == 1 && pairs->rank() == P - 1 ? 1 : 2);
  EXPECT_EQ(pairs->backend(), P == 2 ? "node" : P % 2 == 0 ? "node+mpi" : "mpi");
  // Neighbours share a node; the first ranks of all nodes are alone on theirs.
  if (P % 2 == 1) return;
  EXPECT_EQ(pairs->split(pairs->rank() / 2, 0)->backend(), "node");
  EXPECT_EQ(pairs->split(pairs->rank() % 2, 0)->backend(), "mpi");
}

// One memory for all ranks: what one writes to its slice, all read after an all-gather that copies nothing.
TEST_F(Node, CommonMemoryIsOne) {
  constexpr std::size_t slice = 1025;
  for (CommProgress progress : {CommProgress::wait, CommProgress::worker}) {
    const auto comm = world(0, progress);
    const int P = comm->size(), rank = comm->rank();
    ASSERT_EQ(comm->has_common_memory(), P > 1);
    if (P == 1) return;
    const MemoryLedger ledger;
    const auto buffer = comm->allocate<float>(slice * P, "shardmark::node::test", CommMemory::common);
    EXPECT_EQ(ledger.current()[static_cast<int>(MemoryClass::communication)], slice * sizeof(float));
    for (int turn = 0; turn < 3; ++turn) {
      const auto expected = [&](int owner, std::size_t i) {
        return static_cast<float>(1000 * turn + 10 * owner) + static_cast<float>(i) / slice;
      };
      for (std::size_t i = 0; i < slice; ++i) buffer.view(rank * slice + i) = expected(rank, i);
      comm->start_all_gather(exec, buffer.view).wait();
      for (int owner = 0; owner < P; ++owner)
        for (std::size_t i = 0; i < slice; ++i)
          ASSERT_EQ(buffer.view(owner * slice + i), expected(owner, i)) << "turn " << turn;
      comm->barrier();  // all have read
    }
    // No gather: it is the same memory.
    if (rank == 0) buffer.view(0) = -1;
    comm->barrier();
    EXPECT_EQ(buffer.view(0), -1);
  }
}

TEST_F(Node, CommonMemoryIsForOneNode) {
  for (const auto& comm : {make_world_communicator("mpi"), world(2)}) {
    if (comm->backend() == "node") continue;  // two ranks in all
    EXPECT_FALSE(comm->has_common_memory());
    EXPECT_THROW(comm->allocate<float>(8, "shardmark::test::none", CommMemory::common), std::logic_error);
  }
}

TEST_F(Node, RefusesAJobWithoutNeighbours) {
  if (world()->size() == 1) GTEST_SKIP() << "one rank has nothing to share";
  EXPECT_THROW(world(1), DeckError);
  EXPECT_EQ(make_world_communicator("auto", {.ranks_per_node = 1})->backend(), "mpi");
}

// Memory of the caller's own, more than a bounce buffer holds, in all collectives.
TEST_F(Node, TakesMemoryOfTheCaller) {
  constexpr std::size_t slice = 100003;
  for (CommProgress progress : {CommProgress::wait, CommProgress::worker}) {
    for (int ranks_per_node : {0, 2}) {
      const auto comm = world(ranks_per_node, progress);
      const int P = comm->size(), rank = comm->rank();
      const std::size_t n = slice * P;
      std::vector<double> memory(n), part(slice);
      const Vector<double> whole(memory.data(), n), out(part.data(), slice);
      const auto set = [&] {
        for (std::size_t i = 0; i < n; ++i) memory[i] = static_cast<double>(i % 1009) + 2000 * rank;
      };
      const auto sum = [&](std::size_t i) {
        return P * static_cast<double>(i % 1009) + 1000.0 * P * (P - 1);
      };
      set();
      comm->start_all_gather(exec, whole).wait();
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_EQ(memory[i], static_cast<double>(i % 1009) + 2000.0 * static_cast<double>(i / slice));
      set();
      comm->start_reduce_scatter(exec, whole, out).wait();
      for (std::size_t i = 0; i < slice; ++i) ASSERT_EQ(part[i], sum(rank * slice + i));
      set();
      comm->start_reduce_scatter(exec, whole, shardmark::slice(whole, rank * slice, (rank + 1) * slice))
          .wait();
      for (std::size_t i = 0; i < slice; ++i) ASSERT_EQ(memory[rank * slice + i], sum(rank * slice + i));
      set();
      comm->start_all_reduce(exec, whole).wait();
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(memory[i], sum(i));
      set();
      comm->start_all_reduce(exec, whole, Reduction::max).wait();
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_EQ(memory[i], static_cast<double>(i % 1009) + 2000.0 * (P - 1));
      set();
      comm->start_broadcast(exec, whole, P - 1).wait();
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_EQ(memory[i], static_cast<double>(i % 1009) + 2000.0 * (P - 1));
    }
  }
}

// What the mesh's ranks together allocate serves both groups without a copy, so no bounce buffer is made;
// what a shard group allocates is foreign to the replica group.
TEST_F(Node, GroupsUseTheMemoryOfAll) {
  const auto comm = world();
  const int P = comm->size();
  if (P < 4 || P % 2 == 1) GTEST_SKIP() << "a mesh of two by two or more";
  const Mesh mesh = make_mesh(*comm, 2);
  const auto communication = static_cast<std::size_t>(MemoryClass::communication);
  const MemoryLedger ledger;
  auto shared = mesh.everyone->allocate<float>(1000, "shardmark::test::data");
  auto own = mesh.shard_group->allocate<float>(1000, "shardmark::test::data");
  Kokkos::deep_copy(shared.view, 1);
  mesh.shard_group->start_all_reduce(exec, shared.view).wait();
  mesh.replica_group->start_all_reduce(exec, shared.view).wait();
  EXPECT_EQ(shared.view(999), static_cast<float>(P));
  EXPECT_EQ(ledger.current()[communication], 0u);
  Kokkos::deep_copy(own.view, 1);
  mesh.shard_group->start_all_reduce(exec, own.view).wait();
  EXPECT_EQ(ledger.current()[communication], 0u);
  mesh.replica_group->start_all_reduce(exec, own.view).wait();
  EXPECT_EQ(own.view(999), static_cast<float>(P));
  EXPECT_EQ(ledger.current()[communication], std::uint64_t{1} << 20);
}

TEST_F(Node, MemoryIsBookedWhileItLives) {
  const auto comm = world();
  const MemoryLedger ledger;
  {
    auto memory = comm->allocate<float>(1002, "shardmark::sharded_unit::parameters");
    EXPECT_EQ(ledger.current()[static_cast<int>(MemoryClass::parameters)], 4008u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.view.data()) % 64, 0u);
  }
  EXPECT_EQ(sum_of(ledger.current()), 0u);
}

TEST_F(Node, SeesThatRanksMakeDifferentCalls) {
  const auto comm = world();
  if (comm->size() == 1) GTEST_SKIP() << "one rank calls nobody";
  auto data = comm->allocate<float>(64 * comm->size(), "shardmark::test::data");
  const auto call = [&] {
    Pending pending =
        comm->rank() == 0 ? comm->start_all_gather(exec, data.view) : comm->start_all_reduce(exec, data.view);
    pending.wait();
  };
  EXPECT_THROW(call(), EnvironmentError);
  EXPECT_THROW(comm->start_all_reduce(exec, data.view), EnvironmentError);
}

TEST_F(Node, SeesARootThatThereIsNot) {
  const auto comm = world();
  if (comm->size() == 1) GTEST_SKIP() << "one rank calls nobody";
  auto data = comm->allocate<float>(10, "shardmark::test::data");
  EXPECT_THROW(comm->start_broadcast(exec, data.view, comm->size()), EnvironmentError);
  EXPECT_THROW(comm->start_broadcast(exec, data.view, -1), EnvironmentError);
}

// A rank that comes late finds its data where the others left them, many times over: marks and notices of one
// collective never meet those of the next.
TEST_F(Node, ManyInARow) {
  for (CommProgress progress : {CommProgress::wait, CommProgress::worker}) {
    const auto comm = world(0, progress);
    const std::size_t P = comm->size();
    auto data = comm->allocate<std::int64_t>(3 * P, "shardmark::test::data");
    auto other = comm->allocate<std::int64_t>(3 * P, "shardmark::test::data");
    for (int round = 0; round < 300; ++round) {
      const auto view = round % 3 == 0 ? other.view : data.view;
      Kokkos::deep_copy(view, comm->rank() + round);
      comm->start_all_gather(exec, view).wait();
      for (std::size_t r = 0; r < P; ++r) ASSERT_EQ(view(3 * r), static_cast<std::int64_t>(r) + round);
      comm->start_all_reduce(exec, view).wait();
      for (std::size_t r = 0; r < P; ++r)
        ASSERT_EQ(view(3 * r + 2), static_cast<std::int64_t>(P * (r + round)));
    }
  }
}

TEST(HostReduce, MaximumAndSumInPlace) {
  constexpr std::size_t n = 2500;
  for (std::size_t count : {1, 2, 3, 5}) {
    std::vector<std::vector<float>> buffers(count, std::vector<float>(n));
    std::vector<const void*> parts;
    for (std::size_t b = 0; b < count; ++b) {
      for (std::size_t i = 0; i < n; ++i) buffers[b][i] = static_cast<float>((i * 7 + b * 13) % 29) / 3;
      parts.push_back(buffers[b].data());
    }
    const auto copy = buffers;
    std::vector<float> largest(n);
    reduce_on_host(parts, largest.data(), n, Dtype::fp32, Reduction::max);
    reduce_on_host(parts, buffers[count / 2].data(), n, Dtype::fp32, Reduction::sum);
    for (std::size_t i = 0; i < n; ++i) {
      float sum = copy[0][i], most = sum;
      for (std::size_t b = 1; b < count; ++b) {
        sum += copy[b][i];
        most = std::max(most, copy[b][i]);
      }
      ASSERT_EQ(largest[i], most) << count;
      ASSERT_EQ(buffers[count / 2][i], sum) << count;  // to the bit: in the order of parts
      if (count > 1) {
        ASSERT_EQ(buffers[0][i], copy[0][i]) << count;
      }
    }
  }
}

}  // namespace
}  // namespace shardmark
