// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "comm/mesh.hpp"
#include "comm/progress.hpp"
#include "comm_worlds.hpp"

namespace shardmark {
namespace {

constexpr CommProgress both[] = {CommProgress::wait, CommProgress::worker};
const Exec exec{};

std::vector<std::unique_ptr<Communicator>> communicators(std::size_t largest = default_largest_count) {
  std::vector<std::unique_ptr<Communicator>> all;
  for (CommProgress progress : both)
    for (auto& world : worlds(progress, largest)) all.push_back(std::move(world));
  return all;
}

void fill(const Vector<double>& view, double value) {
  Kokkos::deep_copy(view, value);
}
void expect_all(const Vector<double>& view, double expected) {
  auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  for (std::size_t i = 0; i < host.extent(0); ++i) ASSERT_EQ(host(i), expected) << i;
}

// Collectives of shard groups and replica groups in turn, all started before the first is waited for, and
// waited for in another order, with small host sums of the main thread in between.
TEST(Progress, ManyInFlightOnTwoGroups) {
  constexpr std::size_t n = 5000;
  for (auto& world : communicators(1000)) {
    for (int shard_size : valid_shard_sizes(world->size())) {
      const Mesh mesh = make_mesh(*world, shard_size);
      Communicator* groups[] = {mesh.shard_group.get(), mesh.replica_group.get()};
      std::vector<CommBuffer<double>> buffers;
      std::vector<Pending> pending;
      for (int i = 0; i < 12; ++i) {
        buffers.push_back(world->allocate<double>(n, "shardmark::test::data"));
        fill(buffers.back().view, 100.0 * i + world->rank());
        pending.push_back(groups[i % 2]->start_all_reduce(exec, buffers.back().view));
      }
      for (int i = 11; i >= 0; --i) {
        EXPECT_EQ(groups[i % 2]->host_sum(1), groups[i % 2]->size());
        pending[i].wait();
        double expected = 0;
        for (int r = 0; r < groups[i % 2]->size(); ++r)
          expected += 100.0 * i +
                      (i % 2 == 0 ? mesh.replica * mesh.shard_size + r : r * mesh.shard_size + mesh.shard);
        expect_all(buffers[i].view, expected);
      }
    }
  }
}

// No rank calls MPI between start and the end of the collective: only the worker can have brought it there.
// The last rank starts its own after the first one's was queued.
TEST(Progress, WorkerNeedsNoCallOfTheMainThread) {
  constexpr std::size_t slice = 1 << 18;
  for (auto& world : worlds(CommProgress::worker)) {
    auto whole = world->allocate<double>(slice * world->size(), "shardmark::test::whole");
    fill(whole.view, world->rank());
    Pending pending;
    if (world->rank() == 0) pending = world->start_all_gather(exec, whole.view);
    world->barrier();
    if (world->rank() != 0) pending = world->start_all_gather(exec, whole.view);
    while (!pending.done()) std::this_thread::yield();
    pending.wait();
    for (int r = 0; r < world->size(); ++r)
      expect_all(Vector<double>(whole.view.data() + r * slice, slice), r);
  }
}

// A root that there is not: MPI's own error comes back to whoever waits, and those behind it do not hang.
TEST(Progress, AnErrorOfTheWorkerIsThrownInWait) {
  auto world = make_world_communicator("mpi", {.progress = CommProgress::worker});
  if (world->size() == 1) GTEST_SKIP() << "one rank calls no MPI";
  auto data = world->allocate<double>(10, "shardmark::test::data");
  fill(data.view, 1);
  world->start_all_reduce(exec, data.view).wait();
  Pending bad = world->start_broadcast(exec, data.view, world->size());
  Pending behind = world->start_all_reduce(exec, data.view);
  for (Pending* pending : {&bad, &behind}) {
    try {
      pending->wait();
      ADD_FAILURE() << "no error";
    } catch (const EnvironmentError& error) {
      EXPECT_NE(std::string(error.what()).find("MPI_Ibcast"), std::string::npos) << error.what();
    }
  }
}

// Both kinds of progress add in the same order, so sums agree to the last bit, and so do those of two runs.
TEST(Progress, WorkerAndWaitGiveTheSameBits) {
  constexpr std::size_t slice = 1000;
  std::vector<std::vector<double>> results;
  for (auto& world : communicators()) {
    for (int run = 0; run < 2; ++run) {
      auto whole = world->allocate<double>(slice * world->size(), "shardmark::test::whole");
      auto part = world->allocate<double>(slice, "shardmark::test::slice");
      auto host = Kokkos::create_mirror_view(Kokkos::HostSpace(), whole.view);
      for (std::size_t i = 0; i < host.extent(0); ++i) host(i) = 1.0 / (3 + i + 7 * world->rank());
      Kokkos::deep_copy(whole.view, host);
      world->start_reduce_scatter(exec, whole.view, part.view).wait();
      auto sums = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), part.view);
      results.emplace_back(sums.data(), sums.data() + slice);
    }
  }
  const std::size_t half = results.size() / 2;
  for (std::size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i], results[i % half / 2 * 2]) << i;
}

// A Pending that goes without wait() gives its buffer back only when MPI is done with it.
TEST(Progress, ADroppedCollectiveEndsFirst) {
  for (auto& world : communicators()) {
    auto data = world->allocate<double>(100000, "shardmark::test::data");
    fill(data.view, 1);
    { const Pending dropped = world->start_all_reduce(exec, data.view); }
    expect_all(data.view, world->size());
  }
}

TEST(CommTime, HiddenIsWhatTheMainThreadDidNotWaitFor) {
  const auto all = communicators();
  for (std::size_t i = 0; i < all.size(); ++i) {
    Communicator* world = all[i].get();
    const CommProgress progress = both[i / (all.size() / 2)];
    auto data = world->allocate<double>(200000, "shardmark::test::data");
    fill(data.view, 1);
    const CommTime& time = world->times()[static_cast<int>(Collective::all_reduce)];
    Pending pending = world->start_all_reduce(exec, data.view);
    EXPECT_EQ(time.seconds, 0.0);
    if (progress == CommProgress::worker) {
      while (!pending.done()) std::this_thread::yield();
    }
    pending.wait();
    if (world->size() == 1) {
      EXPECT_EQ(time.seconds, 0.0);
      continue;
    }
    EXPECT_GT(time.seconds, 0.0);
    EXPECT_GT(time.exposed, 0.0);
    if (progress == CommProgress::wait) {
      EXPECT_EQ(time.hidden(), 0.0);
    }
    EXPECT_EQ(world->times()[static_cast<int>(Collective::all_gather)].seconds, 0.0);
    world->reset_traffic();
    EXPECT_EQ(time.exposed, 0.0);
  }
}

TEST(CommTime, HiddenIsNeverNegative) {
  CommTime sum{1.0, 3.0};
  EXPECT_EQ(sum.hidden(), 0.0);
  sum += {4.0, 1.0};
  EXPECT_EQ(sum.hidden(), 1.0);
}

TEST(ResolveProgress, AutoMeansAWorkerWhereEveryHostHasACoreToSpare) {
  EXPECT_FALSE(has_spare_cores({{"a", 1, {0}}, {"a", 1, {1}}}));          // bound to a core each
  EXPECT_FALSE(has_spare_cores({{"a", 1, {0, 1}}, {"a", 1, {0, 1}}}));    // the same cores
  EXPECT_TRUE(has_spare_cores({{"a", 1, {0, 1, 2}}, {"a", 1, {0, 1}}}));  // three for two
  EXPECT_FALSE(has_spare_cores({{"a", 2, {0, 1, 2}}, {"a", 1, {0, 1}}}));
  EXPECT_FALSE(has_spare_cores({{"a", 1, {0, 1}}, {"b", 2, {0, 1}}}));  // one host has none
  EXPECT_TRUE(has_spare_cores({{"a", 1, {0, 1}}, {"b", 1, {0, 1}}}));
}

TEST(ResolveProgress, TakesItsWordsOnly) {
  auto world = make_world_communicator("mpi");
  EXPECT_EQ(resolve_progress("wait", *world), CommProgress::wait);
  if (exec_is_host) {
    EXPECT_EQ(resolve_progress("worker", *world), CommProgress::worker);
  }
  const int chosen = static_cast<int>(resolve_progress("auto", *world));
  EXPECT_EQ(world->host_sum(chosen), chosen * world->size());
  try {
    resolve_progress("thread", *world);
    FAIL() << "no error";
  } catch (const DeckError& error) {
    EXPECT_NE(std::string(error.what()).find("valid: auto, wait, worker"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace shardmark
