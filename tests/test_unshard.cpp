// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "layers/gemm.hpp"
#include "sharding/flat_kernels.hpp"
#include "small_run.hpp"
#include "train/ledger.hpp"

namespace shardmark {
namespace {

using Overrides = std::vector<std::string>;
Overrides and_also(Overrides overrides, const std::string& more) {
  overrides.push_back(more);
  return overrides;
}

template <class T>
std::vector<double> losses(const Communicator& ranks, const Overrides& overrides) {
  SmallRun<T> run(ranks, overrides);
  std::vector<double> all;
  for (const StepResult& result : run.steps(5)) {
    all.push_back(result.loss);
    all.push_back(result.grad_norm);
  }
  return all;
}

// Parameters of one's neighbours read where they lie, or copied first.
template <class T>
void expect_same_when_shared(const Communicator& node, const Overrides& base) {
  const auto how = [&](const char* unshard) {
    return and_also(base, std::string("parallel.unshard=") + unshard);
  };
  EXPECT_EQ(losses<T>(node, how("share")), losses<T>(node, how("copy")));
  // Weights that somebody else changed, as a checkpoint does: 16-bit copies of them are made anew.
  SmallRun<T> copied(node, how("copy")), shared(node, how("auto"));
  for (SmallRun<T>* run : {&copied, &shared}) {
    run->trainer->step();
    for (auto& unit : run->trainer->units()) fill(run->trainer->exec(), 1.0 / 64, unit.masters().device());
  }
  EXPECT_EQ(copied.trainer->loss(), shared.trainer->loss());
  EXPECT_EQ(shared.trainer->plan().residence.parameters, ParameterHome::common);
}
TEST(Unshard, SharingChangesMemoryAndNothingElse) {
  const auto node = make_world_communicator("auto");
  if (!node->has_common_memory()) GTEST_SKIP() << "these ranks have no common memory";
  choose_gemm(Dtype::bf16, "emulated");
  for (const char* strategy : {"zero2", "zero3"}) {
    const Overrides base = {std::string("parallel.strategy=") + strategy, "parallel.poison_padding=true"};
    expect_same_when_shared<float>(*node, base);
    expect_same_when_shared<double>(*node, base);
    expect_same_when_shared<bf16>(*node, base);
  }
  const auto P = static_cast<std::uint64_t>(node->size());
  std::map<std::string, std::uint64_t> parameters, slots;
  std::uint64_t elements = 0;
  for (const char* unshard : {"copy", "share"}) {
    const MemoryLedger ledger;
    SmallRun<float> run(*node, {std::string("parallel.unshard=") + unshard});
    run.trainer->step();
    parameters[unshard] = ledger.peak()[static_cast<int>(MemoryClass::parameters)];
    slots[unshard] = ledger.peak()[static_cast<int>(MemoryClass::unsharded_parameters)];
    elements = 0;
    for (const UnitLayout& layout : run.trainer->plan().layouts) elements += layout.total;
  }
  EXPECT_EQ(parameters["share"], elements * sizeof(float) / P);
  EXPECT_EQ(slots["share"], 0u);
  EXPECT_GT(slots["copy"], 0u);
}
TEST(Unshard, ToShareNeedsCommonMemory) {
  const auto mpi = make_world_communicator("mpi");
  if (mpi->size() == 1)
    EXPECT_NO_THROW(SmallRun<float>(*mpi, {"parallel.unshard=share"}));
  else
    EXPECT_THROW(SmallRun<float>(*mpi, {"parallel.unshard=share"}), DeckError);
  SmallRun<float> copied(*mpi, {"parallel.unshard=auto"});
  EXPECT_NE(copied.trainer->plan().residence.parameters, ParameterHome::common);
  EXPECT_THROW(small_config({"parallel.unshard=share", "parallel.strategy=ddp"}), DeckError);
  EXPECT_THROW(small_config({"parallel.unshard=share", "parallel.offload=all"}), DeckError);
}

}  // namespace
}  // namespace shardmark
