// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
//
// The NCCL back end on stand-ins for NCCL and CUDA (fake_nccl.cpp): what it asks of them, in which order, and
// what it does where they fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "comm/nccl.hpp"
#include "core/runtime.hpp"
#include "fake_nccl.hpp"
#include "small_run.hpp"

namespace shardmark {
namespace {

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    fake_.hangs = fake_.fails_later = fake_.group_fails = false;
    fake_.slow_answers = fake_.aborted = fake_.destroyed = 0;
    fake_.log.clear();
  }
  void TearDown() override { EXPECT_EQ(fake_.open_events, 0); }

  static std::unique_ptr<Communicator> make_world(double timeout) {
    return std::make_unique<NcclCommunicator>(MPI_Comm_f2c(Runtime::mpi_world()),
                                              std::make_shared<MpiShared>(),
                                              std::make_shared<NcclEngine>(timeout));
  }
  /// The message of the failure that calls end with, within 10 s.
  std::string failure_of(Communicator& world, const Vector<float>& data) {
    try {
      for (int i = 0; i < 1000; ++i) {
        world.start_all_gather(exec_, data).wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    } catch (const EnvironmentError& error) {
      return error.what();
    }
    return "none";
  }

  const Exec exec_{};
  fake::Fake& fake_ = fake::state();
};

TEST_F(Nccl, CollectivesAtOnceAndAfterManyAnswers) {
  for (const int slow : {0, 100}) {
    fake_.slow_answers = slow;
    auto world = make_world(60);
    const int P = world->size(), r = world->rank();
    auto whole = world->allocate<double>(3 * P, "shardmark::test::whole");
    auto part = world->allocate<double>(3, "shardmark::test::part");
    const auto set = [&] {
      for (int i = 0; i < 3 * P; ++i) whole.view(i) = 100 * r + i;
    };
    const auto sum = [&](int i) { return P * i + 100.0 * P * (P - 1) / 2; };
    set();
    world->start_all_gather(exec_, whole.view).wait();
    for (int i = 0; i < 3 * P; ++i) ASSERT_EQ(whole.view(i), 100 * (i / 3) + i);
    set();
    world->start_reduce_scatter(exec_, whole.view, part.view).wait();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(part.view(i), sum(3 * r + i));
    set();
    world->start_reduce_scatter(exec_, whole.view, slice(whole.view, 3 * r, 3 * (r + 1))).wait();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(whole.view(3 * r + i), sum(3 * r + i));
    set();
    world->start_all_reduce(exec_, whole.view).wait();
    for (int i = 0; i < 3 * P; ++i) ASSERT_EQ(whole.view(i), sum(i));
    set();
    world->start_all_reduce(exec_, whole.view, Reduction::max).wait();
    for (int i = 0; i < 3 * P; ++i) ASSERT_EQ(whole.view(i), 100 * (P - 1) + i);
    set();
    world->start_broadcast(exec_, whole.view, P - 1).wait();
    for (int i = 0; i < 3 * P; ++i) ASSERT_EQ(whole.view(i), 100 * (P - 1) + i);
    EXPECT_EQ(world->host_sum(r), P * (P - 1) / 2);
    world.reset();
    EXPECT_EQ(fake_.destroyed, P > 1 ? 1 : 0);
    fake_.destroyed = 0;
  }
  EXPECT_EQ(fake_.aborted, 0);
}

TEST_F(Nccl, FollowsTheComputeStreamByEvents) {
  auto world = make_world(60);
  const int P = world->size(), r = world->rank();
  auto whole = world->allocate<float>(2 * P, "shardmark::test::whole");
  auto part = world->allocate<float>(2, "shardmark::test::part");
  EXPECT_EQ(fake_.log, std::vector<std::string>{"stream 1 -5"});  // non-blocking, of the highest priority
  fake_.log.clear();
  Pending pending = world->start_reduce_scatter(exec_, whole.view, part.view);
  fake_.log.push_back("compute");
  pending.wait();
  pending.wait();
  std::vector<std::string> expected = {"copy", "compute"};  // of a group of one
  if (P > 1) {
    expected = {"init " + std::to_string(r) + " of " + std::to_string(P),
                "record on compute",
                "nccl waits",
                "reduce-scatter",
                "record on nccl",
                "compute",
                "compute waits"};
    if (r == 0) expected.insert(expected.begin(), "id");
  }
  EXPECT_EQ(fake_.log, expected);
}

TEST_F(Nccl, GroupsHaveTheirOwnCommunicatorsOnTheSameStream) {
  auto world = make_world(60);
  auto group = world->split(world->rank() % 2, -world->rank());
  EXPECT_EQ(group->backend(), "nccl");
  auto data = group->allocate<float>(1, "shardmark::test::data");
  float expected = 0;
  for (int r = world->rank() % 2; r < world->size(); r += 2) expected += static_cast<float>(r + 1);
  data.view(0) = static_cast<float>(world->rank() + 1);
  group->start_all_reduce(exec_, data.view).wait();
  EXPECT_EQ(data.view(0), expected);
  world->start_broadcast(exec_, data.view, 0).wait();
  EXPECT_EQ(data.view(0), world->size() <= 2 ? 1.0F : 4.0F);
  EXPECT_EQ(std::count(fake_.log.begin(), fake_.log.end(), "stream 1 -5"), 1);
}

// The watcher gives events back some time after their collectives have ended.
TEST_F(Nccl, EventsAreUsedAgain) {
  auto world = make_world(60);
  if (world->size() == 1) GTEST_SKIP() << "a rank alone starts no collective";
  auto data = world->allocate<float>(1, "shardmark::test::data");
  const int before = fake_.made_events, calls = 40;
  for (int i = 0; i < calls; ++i) {
    world->start_all_reduce(exec_, data.view).wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_LT(fake_.made_events - before, calls / 2);
}

// One NCCL group of the small ones, and events behind its end; the large one by itself; nothing before the
// end.
TEST_F(Nccl, SmallCollectivesOfAGroupGoInOneCall) {
  for (const int slow : {0, 100}) {
    auto world = make_world(60);
    const int P = world->size(), r = world->rank();
    if (P == 1) GTEST_SKIP() << "a rank alone starts no collective";
    const std::size_t large = NcclEngine::grouped_bytes / sizeof(float) + 1;
    auto a = world->allocate<float>(P, "shardmark::test::a"),
         b = world->allocate<float>(1, "shardmark::test::b"),
         c = world->allocate<float>(large, "shardmark::test::c"),
         d = world->allocate<float>(2 * P, "shardmark::test::d");
    a.view(r) = static_cast<float>(r);
    b.view(0) = c.view(large - 1) = 1;
    for (int i = 0; i < 2 * P; ++i) d.view(i) = 1;
    world->start_all_reduce(exec_, slice(c.view, 0, 1)).wait();  // makes the communicator
    fake_.slow_answers = slow;
    fake_.log.clear();
    Pending gather, sum, large_sum, scatter;
    world->group_calls([&] {
      gather = world->start_all_gather(exec_, a.view);
      world->group_calls([&] { sum = world->start_all_reduce(exec_, b.view); });
      EXPECT_THROW(sum.wait(), std::logic_error);
      sum = world->start_all_reduce(exec_, b.view, Reduction::max);
      large_sum = world->start_all_reduce(exec_, c.view);
      scatter = world->start_reduce_scatter(exec_, d.view, slice(d.view, 2 * r, 2 * r + 2));
      fake_.log.push_back("last start");
    });
    for (Pending* pending : {&gather, &sum, &large_sum, &scatter}) pending->wait();
    std::vector<std::string> expected;
    for (int starts = 0; starts < 5; ++starts) {
      expected.push_back("record on compute");
      expected.push_back("nccl waits");
    }
    for (const char* entry :
         {"last start", "group", "all-gather", "all-reduce", "all-reduce", "group end", "record on nccl",
          "record on nccl", "record on nccl", "all-reduce", "record on nccl", "reduce-scatter",
          "record on nccl", "compute waits", "compute waits", "compute waits", "compute waits"})
      expected.push_back(entry);
    EXPECT_EQ(fake_.log, expected);
    for (int i = 0; i < P; ++i) EXPECT_EQ(a.view(i), i);
    EXPECT_EQ(b.view(0), P);
    EXPECT_EQ(c.view(large - 1), P);
    EXPECT_EQ(d.view(2 * r + 1), P);
    world.reset();
  }
}

TEST_F(Nccl, AGroupThatThrowsOrFailsLeavesNoneOpen) {
  auto world = make_world(60);
  if (world->size() == 1) GTEST_SKIP() << "a rank alone starts no collective";
  auto data = world->allocate<float>(2 * world->size(), "shardmark::test::data");
  Pending first, second;
  const auto start_two = [&] {
    first = world->start_all_gather(exec_, data.view);
    second = world->start_all_reduce(exec_, data.view);
  };
  EXPECT_THROW(world->group_calls([&] {
    start_two();
    throw std::runtime_error("elsewhere");
  }),
               std::runtime_error);
  first.wait();
  second.wait();
  EXPECT_EQ(std::count(fake_.log.begin(), fake_.log.end(), "all-gather"), 0);
  fake_.group_fails = true;
  try {
    world->group_calls(start_two);
    ADD_FAILURE() << "the end of NCCL's group failed";
  } catch (const EnvironmentError& error) {
    EXPECT_EQ(std::string(error.what()).rfind("NCCL: ncclAllGather of 2 fp32 a rank among", 0), 0u)
        << error.what();
  }
  EXPECT_EQ(fake_.aborted, 1);
}

/// How often a step opens NCCL's group, and how many all-reduces it asks for.
std::pair<int, int> groups_of_step(const Communicator& world, const std::vector<std::string>& overrides) {
  SmallRun<float> run(world, overrides);
  run.steps(1);
  std::vector<std::string>& log = fake::state().log;
  log.clear();
  run.steps(1);
  return {std::count(log.begin(), log.end(), "group"), std::count(log.begin(), log.end(), "all-reduce")};
}

// All units' gradients are one group with ddp; with zero1 the first gathers are one, and then a reduction
// goes with the gather or the reduction next to it where there is one.
TEST_F(Nccl, SmallUnitsAreGrouped) {
  auto world = make_world(60);
  if (world->size() == 1) GTEST_SKIP() << "a rank alone starts no collective";
  using Counts = std::pair<int, int>;
  EXPECT_EQ(groups_of_step(*world, {"parallel.strategy=ddp", "model.layers=4"}), Counts(1, 5));
  EXPECT_EQ(
      groups_of_step(*world, {"parallel.strategy=zero1", "model.layers=4", "parallel.prefetch=9"}).first, 1);
}

/// For each all-gather of a forward pass, in order: the kernels that were launched between its start and the
/// wait of the compute stream for it.
std::vector<int> kernels_beside_gathers(const Communicator& world, const std::string& prefetch) {
  namespace tools = Kokkos::Tools::Experimental;
  static std::vector<std::string>& log = fake::state().log;
  SmallRun<float> run(world, {"model.layers=4", "parallel.strategy=zero3", "parallel.prefetch=" + prefetch,
                              "train.micro_batch=1", "train.global_batch=" + std::to_string(world.size())});
  log.clear();
  const tools::EventSet before = tools::get_callbacks();
  tools::set_begin_parallel_for_callback(
      [](const char*, std::uint32_t, std::uint64_t*) { log.push_back("kernel"); });
  run.trainer->loss();
  tools::set_callbacks(before);
  std::vector<int> starts, beside;
  int kernels = 0;
  for (const std::string& entry : log) {
    if (entry == "kernel") ++kernels;
    if (entry == "all-gather") starts.push_back(kernels);
    if (entry == "compute waits") beside.push_back(kernels - starts.at(beside.size()));
  }
  EXPECT_EQ(beside.size(), starts.size());
  return beside;
}

// The root, with the embeddings, is needed at once, and with k = 1 the first block is all that is asked for
// before it is used. Those after it have the block before them to hide behind.
TEST_F(Nccl, GathersAheadRunBesideCompute) {
  auto world = make_world(60);
  if (world->size() == 1) GTEST_SKIP() << "a rank alone gathers nothing";
  for (const int beside : kernels_beside_gathers(*world, "0")) EXPECT_EQ(beside, 0);
  const std::vector<int> one = kernels_beside_gathers(*world, "1"), two = kernels_beside_gathers(*world, "2");
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t unit = 2; unit < one.size(); ++unit) {
    EXPECT_GT(one[unit], 0) << unit;
    EXPECT_GE(two[unit], one[unit]) << unit;
  }
}

TEST_F(Nccl, TrainsAsMpiDoes) {
  auto world = make_world(60);
  const auto mpi = make_world_communicator("mpi");
  for (const char* strategy : {"ddp", "zero1", "zero3"}) {
    const std::vector<std::string> overrides = {std::string("parallel.strategy=") + strategy};
    SmallRun<float> run(*world, overrides), same(*mpi, overrides);
    const auto found = run.steps(3), expected = same.steps(3);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i].loss, expected[i].loss, 1e-5) << strategy;
  }
}

TEST_F(Nccl, GivesUpWhatHangs) {
  auto world = make_world(0.2);
  if (world->size() == 1) GTEST_SKIP() << "a rank alone starts no collective";
  auto data = world->allocate<float>(4 * world->size(), "shardmark::test::data");
  fake_.hangs = true;
  {
    Pending pending = world->start_all_gather(exec_, data.view);
    EXPECT_FALSE(pending.done());
  }  // blocks until then
  EXPECT_EQ(fake_.aborted, 1);
  EXPECT_NE(failure_of(*world, data.view)
                .find("NCCL: ncclAllGather of 4 fp32 a rank among " + std::to_string(world->size()) +
                      " ranks did not end within 0.2"),
            std::string::npos);
  world.reset();
  EXPECT_EQ(fake_.aborted, 1);
  EXPECT_EQ(fake_.destroyed, 0);
}

TEST_F(Nccl, GivesUpWhatDoesNotComeAbout) {
  auto world = make_world(0.2);
  if (world->size() == 1) GTEST_SKIP() << "a rank alone starts no collective";
  auto data = world->allocate<float>(world->size(), "shardmark::test::data");
  fake_.slow_answers = 1 << 30;
  EXPECT_NE(failure_of(*world, data.view).find("NCCL: ncclCommInitRankConfig among"), std::string::npos);
  EXPECT_EQ(fake_.aborted, 1);
}

TEST_F(Nccl, AsynchronousErrorsAreThrownByTheNextCall) {
  auto world = make_world(60);
  if (world->size() == 1) GTEST_SKIP() << "a rank alone starts no collective";
  auto data = world->allocate<float>(world->size(), "shardmark::test::data");
  world->start_all_gather(exec_, data.view).wait();
  world->barrier();
  fake_.fails_later = true;
  while (fake_.aborted == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(failure_of(*world, data.view),
            "NCCL: asynchronous error: remote process exited or there was a network error");
}

TEST_F(Nccl, AnExceptionOnItsWayAborts) {
  int size = 1;
  try {
    auto world = make_world(60);
    size = world->size();
    auto data = world->allocate<float>(size, "shardmark::test::data");
    world->start_all_gather(exec_, data.view).wait();
    throw std::runtime_error("elsewhere");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(fake_.aborted, size > 1 ? 1 : 0);
  EXPECT_EQ(fake_.destroyed, 0);
}

}  // namespace
}  // namespace shardmark
