// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "layers/gemm.hpp"
#include "small_run.hpp"

namespace shardmark {
namespace {

namespace tools = Kokkos::Tools::Experimental;

/// What happens while it lives that has no place in a step: kernels on another instance than the one given,
/// allocations, and fences without a reason of ours. One at a time.
class LaunchWatcher {
 public:
  explicit LaunchWatcher(const Exec& exec) {
    seen_ = {};
    seen_.device = tools::device_id(exec);
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
    std::uint32_t device;
    std::size_t kernels;
    std::set<std::string> elsewhere, allocations, fences;
  };

  static void on_kernel(const char* name, std::uint32_t device, std::uint64_t*) {
    ++seen_.kernels;
    if (device != seen_.device) seen_.elsewhere.insert(name);
  }

  inline static Seen seen_{};
  inline static tools::EventSet before_;
};

/// An instance of its own where the back end has several: devices, each with its stream.
Exec own_instance() {
#if KOKKOS_VERSION >= 40000
  return Kokkos::Experimental::partition_space(Exec(), std::vector<int>{1}).front();
#else
  return Exec();
#endif
}

using Names = std::set<std::string>;

template <class T>
void expect_clean_step(const std::vector<std::string>& overrides) {
  static const Communicator* const world = make_world_communicator("mpi").release();
  const Exec exec = own_instance();
  SmallRun<T> run(*world, overrides, exec);
  run.steps(2);  // what is made once is there
  const LaunchWatcher watcher(exec);
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
  expect_clean_step<float>({"model.kind=mlp", "model.sizes=[7,9,6,3]", "data.kind=teacher"});
}

}  // namespace
}  // namespace shardmark
