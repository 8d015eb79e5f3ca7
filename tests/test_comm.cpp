// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "comm/mesh.hpp"
#include "comm/staged.hpp"
#include "comm_worlds.hpp"
#include "core/runtime.hpp"

namespace shardmark {
namespace {

// Small whole numbers, exact in every dtype: what rank r holds at element i.
double sent(int rank, std::size_t i) {
  return static_cast<double>((7 * i + 3 * rank) % 11);
}

template <class T>
T to(double value) {
  if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, fp16>) {
    return T::from(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}
template <class T>
double from(T value) {
  if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, fp16>) {
    return value.to_float();
  } else {
    return static_cast<double>(value);
  }
}

// All back ends, and MPI staged, with both kinds of progress, and MPI calls of the usual size and of at most
// 10 elements, so that everything is split.
std::vector<std::unique_ptr<Communicator>> communicators() {
  std::vector<std::unique_ptr<Communicator>> all;
  for (CommProgress progress : {CommProgress::wait, CommProgress::worker})
    for (std::size_t largest : {default_largest_count, std::size_t{10}}) {
      for (auto& world : worlds(progress, largest)) all.push_back(std::move(world));
      all.push_back(make_world_communicator("mpi", {largest, progress, Staging::always}));
    }
  return all;
}

template <class T>
class Collectives : public testing::Test {
 protected:
  const Exec exec{};
  const std::size_t slices[4] = {0, 1, 10, 37};
};
using Types = testing::Types<float, double, bf16, fp16, std::int32_t, std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(Collectives, Types);

// Views in the memory of the device: these tests fill and read them through mirrors.
template <class T, class F>
void fill(const Vector<T>& view, F f) {
  auto host = Kokkos::create_mirror_view(Kokkos::HostSpace(), view);
  for (std::size_t i = 0; i < view.extent(0); ++i) host(i) = to<T>(f(i));
  Kokkos::deep_copy(view, host);
}
template <class T>
std::vector<double> read(const Vector<T>& view) {
  auto host = Kokkos::create_mirror_view(Kokkos::HostSpace(), view);
  Kokkos::deep_copy(host, view);
  std::vector<double> values(view.extent(0));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = from(host(i));
  return values;
}

TYPED_TEST(Collectives, AllGatherBringsEverySliceInPlace) {
  for (auto& comm : communicators()) {
    for (std::size_t slice : this->slices) {
      auto buffer = comm->template allocate<TypeParam>(slice * comm->size(), "shardmark::test::whole");
      fill(buffer.view, [&](std::size_t i) {
        return i / std::max<std::size_t>(slice, 1) == static_cast<std::size_t>(comm->rank())
                   ? sent(comm->rank(), i % slice)
                   : 99;
      });
      comm->start_all_gather(this->exec, buffer.view).wait();
      const auto got = read(buffer.view);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], sent(static_cast<int>(i / slice), i % slice))
            << "slice " << slice << " element " << i;
    }
  }
}

TYPED_TEST(Collectives, ReduceScatterSumsIntoSeparateMemoryAndInPlace) {
  for (auto& comm : communicators()) {
    for (std::size_t slice : this->slices) {
      for (bool in_place : {false, true}) {
        auto whole = comm->template allocate<TypeParam>(slice * comm->size(), "shardmark::test::whole");
        auto separate = comm->template allocate<TypeParam>(slice, "shardmark::test::slice");
        const std::size_t first = slice * comm->rank();
        const auto out = in_place ? shardmark::slice(whole.view, first, first + slice) : separate.view;
        fill(whole.view, [&](std::size_t i) { return sent(comm->rank(), i); });
        comm->start_reduce_scatter(this->exec, whole.view, out).wait();
        const auto got = read(out);
        for (std::size_t i = 0; i < slice; ++i) {
          double expected = 0;
          for (int r = 0; r < comm->size(); ++r) expected += sent(r, first + i);
          ASSERT_EQ(got[i], expected) << "slice " << slice << " element " << i << " in place " << in_place;
        }
      }
    }
  }
}

TYPED_TEST(Collectives, AllReduceAndBroadcast) {
  for (auto& comm : communicators()) {
    for (std::size_t n : this->slices) {
      auto buffer = comm->template allocate<TypeParam>(n, "shardmark::test::data");
      fill(buffer.view, [&](std::size_t i) { return sent(comm->rank(), i); });
      comm->start_all_reduce(this->exec, buffer.view).wait();
      auto got = read(buffer.view);
      for (std::size_t i = 0; i < n; ++i) {
        double expected = 0;
        for (int r = 0; r < comm->size(); ++r) expected += sent(r, i);
        ASSERT_EQ(got[i], expected);
      }
      const int root = comm->size() - 1;
      fill(buffer.view, [&](std::size_t i) { return sent(comm->rank(), i); });
      comm->start_broadcast(this->exec, buffer.view, root).wait();
      got = read(buffer.view);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(got[i], sent(root, i));
    }
  }
}

// 258 + 1 = 259 lies halfway between two bf16 values, and the even one is 260. Truncation would give 258.
TEST(SmallFloatSum, RoundsToNearestEven) {
  for (auto& comm : communicators()) {
    const Exec exec{};
    auto buffer = comm->allocate<bf16>(1, "shardmark::test::data");
    fill(buffer.view, [&](std::size_t) { return comm->rank() == 0 ? 258.0 : comm->rank() == 1 ? 1.0 : 0.0; });
    comm->start_all_reduce(exec, buffer.view).wait();
    EXPECT_EQ(read(buffer.view)[0], comm->size() == 1 ? 258.0 : 260.0);
  }
}

TEST(Traffic, CountsCallsAndBytesThatLeaveTheRank) {
  for (auto& comm : communicators()) {
    const Exec exec{};
    const std::uint64_t P = comm->size();
    auto whole = comm->allocate<float>(12 * P, "shardmark::test::whole");
    auto part = comm->allocate<float>(12, "shardmark::test::slice");
    fill(whole.view, [](std::size_t) { return 1.0; });
    comm->start_all_gather(exec, whole.view).wait();
    comm->start_reduce_scatter(exec, whole.view, part.view).wait();
    comm->start_all_reduce(exec, whole.view).wait();
    const auto& traffic = comm->traffic();
    EXPECT_EQ(traffic[static_cast<int>(Collective::all_gather)].bytes, 12 * (P - 1) * 4);
    EXPECT_EQ(traffic[static_cast<int>(Collective::reduce_scatter)].bytes, 12 * (P - 1) * 4);
    EXPECT_EQ(traffic[static_cast<int>(Collective::all_reduce)].bytes, 2 * 12 * (P - 1) * 4);
    EXPECT_EQ(traffic[static_cast<int>(Collective::all_reduce)].calls, 1u);
  }
}

TEST(Agree, AllRanksThrowTheLowestFailingRanksError) {
  auto comm = make_world_communicator("mpi");
  EXPECT_NO_THROW(comm->agree([] {}));
  for (int culprit = 0; culprit < comm->size(); ++culprit) {
    try {
      comm->agree([&] {
        if (comm->rank() >= culprit) throw EnvironmentError("disk of rank " + std::to_string(comm->rank()));
      });
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      EXPECT_TRUE(error.everywhere());
      EXPECT_EQ(std::string(error.what()), "disk of rank " + std::to_string(culprit));
    }
  }
}

TEST(Mesh, GroupsAreRowsAndColumns) {
  auto world = make_world_communicator("mpi");
  for (int shard_size : valid_shard_sizes(world->size())) {
    const Mesh mesh = make_mesh(*world, shard_size);
    EXPECT_EQ(mesh.shard_size * mesh.replicas, world->size());
    EXPECT_EQ(mesh.replica * mesh.shard_size + mesh.shard, world->rank());
    EXPECT_EQ(mesh.shard_group->rank(), mesh.shard);
    EXPECT_EQ(mesh.shard_group->size(), mesh.shard_size);
    EXPECT_EQ(mesh.replica_group->rank(), mesh.replica);
    EXPECT_EQ(mesh.replica_group->size(), mesh.replicas);
    int ranks = 0;
    for (int s = 0; s < mesh.shard_size; ++s) ranks += mesh.replica * mesh.shard_size + s;
    EXPECT_EQ(mesh.shard_group->host_sum(world->rank()), ranks);
    const auto lines = describe(*world, mesh);
    for (int r = 0; r < world->size(); ++r) {
      const std::string place = ": shard " + std::to_string(r % shard_size) + ", replica " +
                                std::to_string(r / shard_size) + (exec_is_host ? ", host" : ", ");
      EXPECT_EQ(lines[r].rfind("rank " + std::to_string(r) + " on ", 0), 0u) << lines[r];
      EXPECT_NE(lines[r].find(place), std::string::npos) << lines[r];
    }
  }
}

TEST(Mesh, RefusesASizeThatDoesNotDivide) {
  auto world = make_world_communicator("mpi");
  try {
    make_mesh(*world, world->size() + 1);
    FAIL();
  } catch (const DeckError& error) {
    EXPECT_NE(std::string(error.what()).find("valid: 1"), std::string::npos) << error.what();
  }
}

// The devices of ranks in order; ranks of different nodes have different ones though their local index is the
// same. A pair in the middle is found first: it is complete first.
TEST(Devices, OneForEachRankUnlessSharingIsAllowed) {
  const std::vector<std::string> own = {"GPU-a", "GPU-b", "GPU-c", "GPU-d"}, none = {"", "", ""};
  const std::vector<std::string> shared = {"GPU-a", "GPU-b", "GPU-c", "GPU-b", "GPU-a"};
  for (const char* backend : {"mpi", "mpi, staged", "nccl"})
    for (const bool allowed : {false, true}) {
      EXPECT_EQ(device_fault(own, allowed, backend), "");
      EXPECT_EQ(device_fault(none, allowed, backend), "");
    }
  const std::string start =
      "ranks 1 and 3 share the device GPU-b: start at most as many ranks a node as it has devices";
  const std::string way_out = ", or set comm.share_device = true, which comm.backend = \"mpi\" allows";
  EXPECT_EQ(device_fault(shared, false, "mpi"), start + way_out);
  EXPECT_EQ(device_fault(shared, true, "mpi, sums staged"), "");
  EXPECT_EQ(device_fault(shared, false, "nccl"), start + "; NCCL needs one for each");
  EXPECT_EQ(device_fault(shared, true, "nccl"), device_fault(shared, false, "nccl"));
}

TEST(Devices, AllRanksThrowTheSameErrorWhereTwoShareOne) {
  const auto world = make_world_communicator("mpi");
  const int P = world->size(), r = world->rank();
  EXPECT_NO_THROW(require_own_devices(*world, "GPU-" + std::to_string(r), false));
  const std::string uuid = "GPU-" + std::to_string(std::min(r, P - 2));  // the last two have one
  EXPECT_NO_THROW(require_own_devices(*world, uuid, true));
  if (P == 1) return;
  try {
    require_own_devices(*world, uuid, false);
    ADD_FAILURE() << "they share one";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_TRUE(error.everywhere());
    const auto texts = world->host_gather(error.what());
    EXPECT_EQ(std::count(texts.begin(), texts.end(), texts[0]), P);
    EXPECT_EQ(texts[0].rfind("ranks " + std::to_string(P - 2) + " and " + std::to_string(P - 1), 0), 0u)
        << texts[0];
  }
}

TEST(Staged, GroupsOfItAreAndOtherBackEndsAreNot) {
  auto world = make_world_communicator("mpi", {.staging = Staging::always});
  EXPECT_EQ(world->split(world->rank() % 2, 0)->backend(), "mpi, staged");
  EXPECT_THROW(make_world_communicator("auto", {.staging = Staging::always}), DeckError);
  if (exec_is_host) {
    EXPECT_EQ(make_world_communicator("mpi", {.staging = Staging::never})->backend(), "mpi");
  }
}

// As on devices whose memory MPI moves but does not add in.
TEST(Staged, SumsOnly) {
  const Exec exec;
  StagedCommunicator world(MPI_Comm_f2c(Runtime::mpi_world()), std::make_shared<MpiShared>(), true);
  EXPECT_EQ(world.split(0, world.rank())->backend(), "mpi, sums staged");
  const int P = world.size(), r = world.rank();
  const auto whole = world.allocate<float>(2 * P, "shardmark::test::whole");
  fill(whole.view, [&](std::size_t i) { return 10 * r + static_cast<int>(i); });
  world.start_all_gather(exec, whole.view).wait();
  for (int i = 0; i < 2 * P; ++i) EXPECT_EQ(read(whole.view)[i], 10 * (i / 2) + i);
  world.start_reduce_scatter(exec, whole.view, slice(whole.view, 2 * r, 2 * r + 2)).wait();
  for (int i = 2 * r; i < 2 * r + 2; ++i) EXPECT_EQ(read(whole.view)[i], P * (10 * (i / 2) + i));
  world.start_broadcast(exec, whole.view, P - 1).wait();
  EXPECT_EQ(read(whole.view)[2 * P - 1], P * (10 * (P - 1) + 2 * P - 1));
}

TEST(Host, GatherAndBroadcastText) {
  auto world = make_world_communicator("mpi", CommOptions{3});
  const auto texts = world->host_gather("rank " + std::to_string(world->rank()));
  for (int r = 0; r < world->size(); ++r) EXPECT_EQ(texts[r], "rank " + std::to_string(r));
}

}  // namespace
}  // namespace shardmark
