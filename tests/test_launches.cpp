// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/instances.hpp"
#include "layers/gemm.hpp"
#include "small_run.hpp"

namespace shardmark {
namespace {

namespace tools = Kokkos::Tools::Experimental;

/// What happens while it lives that has no place in a step: kernels on another instance than those given,
/// allocations, and fences without a reason of ours. One at a time.
class LaunchWatcher {
 public:
  LaunchWatcher(const Exec& exec, const Exec& copies) {
    seen_ = {};
    seen_.devices = {tools::device_id(exec), tools::device_id(copies)};
    before_ = tools::get_callbacks();
    tools::set_begin_parallel_for_callback(on_kernel);
    tools::set_begin_parallel_reduce_callback(on_kernel);
    tools::set_begin_parallel_scan_callback(on_kernel);
    tools::set_allocate_data_callback([](Kokkos::Tools::SpaceHandle, const char* name, const void*,
                                         std::uint64_t) { seen_.allocations.insert(name); });
#if KOKKOS_VERSION >= 30600
    tools::set_begin_fence_callback([](const char* name, std::uint32_t, std::uint64_t*) {
      const std::string reason(name);
      const bool for_tools = reason.rfind("Kokkos::Tools::", 0) == 0;  // where somebody listens, like this
      if (!for_tools && reason.rfind("shardmark::", 0) != 0) seen_.fences.insert(reason);
    });
#endif
  }
  ~LaunchWatcher() {
    tools::set_callbacks(before_);
  }
  LaunchWatcher(const LaunchWatcher&) = delete;
  LaunchWatcher& operator=(const LaunchWatcher&) = delete;

  static std::size_t kernels() {
    return seen_.kernels;
  }
  static const std::set<std::string>& elsewhere() {
    return seen_.elsewhere;
  }
  static const std::set<std::string>& allocations() {
    return seen_.allocations;
  }
  static const std::set<std::string>& fences() {
    return seen_.fences;
  }

 private:
  struct Seen {
    std::set<std::uint32_t> devices;
    std::size_t kernels;
    std::set<std::string> elsewhere, allocations, fences;
  };

  static void on_kernel(const char* name, std::uint32_t device, std::uint64_t*) {
    ++seen_.kernels;
    if (seen_.devices.count(device) == 0) seen_.elsewhere.insert(name);
  }

  inline static Seen seen_{};
  inline static tools::EventSet before_;
};

using Names = std::set<std::string>;

template <class T>
void expect_clean_step(const std::vector<std::string>& overrides) {
  static const Communicator* const world = make_world_communicator("mpi").release();
  const Exec exec = make_instance();
  SmallRun<T> run(*world, overrides, exec);
  run.steps(2);  // what is made once is there
  const LaunchWatcher watcher(exec, run.trainer->copies());
  run.trainer->step();
  EXPECT_GT(watcher.kernels(), 20u);
  EXPECT_EQ(watcher.elsewhere(), Names());
  EXPECT_EQ(watcher.allocations(), Names());
  EXPECT_EQ(watcher.fences(), Names());
}

// On hosts all instances have one number, so that a kernel on another one is seen on devices only.
TEST(Launches, AStepStaysOnItsInstanceAndAllocatesNothing) {
  choose_gemm(Dtype::bf16, "emulated");
  for (const char* strategy : {"ddp", "zero1", "zero2", "zero3", "hybrid"}) {
    expect_clean_step<float>({std::string("parallel.strategy=") + strategy});
    expect_clean_step<bf16>({std::string("parallel.strategy=") + strategy});
  }
  expect_clean_step<double>({"optimizer.kind=sgd", "train.recompute=block"});
  expect_clean_step<float>({"parallel.offload=all"});
  expect_clean_step<bf16>({"parallel.offload=all"});
  expect_clean_step<float>({"parallel.offload=optimizer"});
  expect_clean_step<float>({"model.kind=mlp", "model.sizes=[7,9,6,3]", "data.kind=teacher"});
}

/// Notes, while it lives, what is copied from and to the homes of offloaded tensors, by pointer, and kernels
/// of one name. One at a time.
class VisitWatcher {
 public:
  VisitWatcher(std::vector<const void*> homes, const std::string& kernel) {
    homes_ = std::move(homes);
    kernel_ = kernel;
    events_.clear();
    kernels_ = 0;
    before_ = tools::get_callbacks();
    tools::set_begin_deep_copy_callback([](Kokkos::Tools::SpaceHandle, const char*, const void* to,
                                           Kokkos::Tools::SpaceHandle, const char*, const void* from,
                                           std::uint64_t) {
      for (std::size_t u = 0; u < homes_.size(); ++u) {
        if (from == homes_[u]) events_.push_back("to " + std::to_string(u));
        if (to == homes_[u]) events_.push_back("from " + std::to_string(u));
      }
    });
    tools::set_begin_parallel_for_callback([](const char* name, std::uint32_t, std::uint64_t*) {
      if (name == kernel_) events_.push_back("at " + std::to_string(kernels_++));
    });
  }
  ~VisitWatcher() { tools::set_callbacks(before_); }
  VisitWatcher(const VisitWatcher&) = delete;
  VisitWatcher& operator=(const VisitWatcher&) = delete;

  static const std::vector<std::string>& events() { return events_; }

 private:
  inline static std::vector<const void*> homes_;
  inline static std::string kernel_;
  inline static std::vector<std::string> events_;
  inline static int kernels_ = 0;
  inline static tools::EventSet before_;
};

// The state of unit u + 1 is on its way while unit u is updated, and that of unit u goes home meanwhile; one
// launch a unit.
TEST(Launches, OffloadedStateOfTheNextUnitArrivesDuringAnUpdate) {
  const auto world = make_world_communicator("mpi");
  SmallRun<float> run(*world, {"parallel.offload=optimizer", "model.layers=3"});
  std::vector<const void*> homes;
  for (const auto& tensor : run.trainer->optimizer_state()[0]) homes.push_back(tensor.home().data());
  ASSERT_EQ(homes.size(), 4u);
  const VisitWatcher watcher(homes, "shardmark::adamw::update");
  run.trainer->step();
  const std::vector<std::string> expected = {"to 0",   "to 1", "at 0", "from 0", "to 2", "at 1",
                                             "from 1", "to 3", "at 2", "from 2", "at 3", "from 3"};
  EXPECT_EQ(watcher.events(), expected);
}

// Whatever the number of parameters: one launch zeroes a unit's gradients, two square them, one updates.
TEST(Launches, AFewForAllParametersOfAUnit) {
  const auto world = make_world_communicator("mpi");
  SmallRun<float> run(*world, {});
  static std::map<std::string, int> launches;
  launches.clear();
  const tools::EventSet before = tools::get_callbacks();
  tools::set_begin_parallel_for_callback(
      [](const char* name, std::uint32_t, std::uint64_t*) { ++launches[name]; });
  run.trainer->step();
  tools::set_callbacks(before);
  const int units = static_cast<int>(run.trainer->units().size());
  const auto& schedule = run.trainer->training_schedule();
  const auto opens = [](const Action& action) { return action.verb == Verb::open_gradients; };
  EXPECT_EQ(launches["shardmark::adamw::update"], units);
  EXPECT_EQ(launches["shardmark::clip::sum_of_squares"], units);
  EXPECT_EQ(launches["shardmark::clip::add_parts"], units);
  EXPECT_EQ(launches["shardmark::flat_kernels::zero"] + launches["shardmark::flat_kernels::fill"],
            std::count_if(schedule.begin(), schedule.end(), opens));
}

}  // namespace
}  // namespace shardmark
