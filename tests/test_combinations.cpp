// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "all_pairs.hpp"
#include "comm_worlds.hpp"
#include "layers/gemm.hpp"
#include "small_run.hpp"
#include "train/ledger.hpp"
#include "train/precision_dispatch.hpp"

namespace shardmark {
namespace {

/// The same ranks on every back end, with and without a thread that communicates. They outlive main.
const std::vector<Communicator*>& every_world() {
  static const auto* all = [] {
    auto* made = new std::vector<Communicator*>;
    for (CommProgress progress : {CommProgress::wait, CommProgress::worker})
      for (auto& world : worlds(progress)) made->push_back(world.release());
    return made;
  }();
  return *all;
}
const Communicator& world() {
  return *every_world().front();
}

using Overrides = std::vector<std::string>;

/// One thing that a deck chooses, and what it may choose.
struct Factor {
  const char* name;
  std::vector<Overrides> values;
};

const std::vector<Factor>& factors() {
  static const std::vector<Factor> all = {
      {"model",
       {{},
        {"model.tie_embeddings=false"},
        {"model.kind=mlp", "model.sizes=[7,9,6,5,3]", "data.kind=teacher"},
        {"model.width=3", "model.heads=1", "model.vocab=3", "data.states=3", "data.successors=2"}}},
      {"strategy",
       {{"parallel.strategy=ddp"},
        {"parallel.strategy=zero1"},
        {"parallel.strategy=zero2"},
        {"parallel.strategy=zero3"},
        {"parallel.strategy=hybrid", "parallel.shard_size=1"},
        {"parallel.strategy=hybrid", "parallel.shard_size=2"},
        {"parallel.strategy=hybrid", "parallel.shard_size=3"},
        {"parallel.strategy=hybrid", "parallel.shard_size=4"}}},
      {"precision",
       {{"precision.param=fp64"},
        {"precision.param=fp32"},
        {"precision.param=fp32", "precision.reduce=bf16"},
        {"precision.param=bf16"},
        {"precision.param=bf16", "precision.reduce=bf16"},
        {"precision.param=fp16", "precision.loss_scale=1024"}}},
      {"prefetch", {{}, {"parallel.prefetch=0"}, {"parallel.prefetch=2"}, {"parallel.prefetch=3"}}},
      {"reshard", {{}, {"parallel.reshard_after_forward=true"}, {"parallel.reshard_after_forward=false"}}},
      {"accumulate", {{}, {"parallel.accumulate=whole"}, {"parallel.accumulate=sharded"}}},
      {"offload", {{}, {"parallel.offload=optimizer"}, {"parallel.offload=all"}}},
      {"unshard", {{}, {"parallel.unshard=copy"}}},
      {"units", {{}, {"parallel.unit_params=2500"}, {"parallel.unit_params=1000000"}}},
      {"batch",
       {{"train.micro_batch=1"},
        {"train.micro_batch=2"},
        {"train.micro_batch=7"},
        {"train.global_batch=1", "train.micro_batch=1"}}},
      {"recompute", {{}, {"train.recompute=block"}, {"train.recompute=block", "train.recompute_every=2"}}},
      {"head", {{}, {"train.head_rows=3"}}},
      {"optimizer", {{}, {"optimizer.kind=sgd", "optimizer.lr=0.003"}}},
      {"padding", {{}, {"parallel.poison_padding=true"}}},
  };
  return all;
}

Overrides overrides_of(const std::vector<std::size_t>& row) {
  Overrides all = {"model.layers=3"};
  for (std::size_t f = 0; f < row.size(); ++f) {
    const Overrides& own = factors()[f].values[row[f]];
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::string describe(const Overrides& overrides) {
  std::string text;
  for (const std::string& assignment : overrides) text += assignment + " ";
  return text;
}

bool is_valid(const std::vector<std::size_t>& row) {
  try {
    const RunConfig config = small_config(overrides_of(row));
    const int S = config.parallel.shard_size_for(world().size());
    return S > 0 && world().size() % S == 0;
  } catch (const DeckError&) {
    return false;
  }
}

constexpr int steps = 4;
constexpr double rounding = 512;  // bytes: Kokkos rounds each allocation up to 8

/// Losses of the same model, batch and optimizer by ddp in double on this rank alone.
std::vector<double> reference_losses(const Overrides& overrides) {
  const auto alone = world().split(world().rank(), 0);
  Overrides plain = overrides;
  for (const char* reset : {"parallel.strategy=ddp", "parallel.shard_size=0", "parallel.prefetch=1",
                            "parallel.accumulate=auto", "parallel.reshard_after_forward=auto",
                            "parallel.offload=none", "parallel.unshard=auto", "parallel.unit_params=0",
                            "parallel.poison_padding=false", "train.recompute=none", "train.head_rows=512"})
    plain.push_back(reset);
  SmallRun<double> run(*alone, plain);
  std::vector<double> losses;
  for (const StepResult& result : run.steps(steps)) losses.push_back(result.loss);
  return losses;
}

double tolerance_of(const PrecisionConfig& precision) {
  if (precision.param == Dtype::fp64) return 1e-10;
  if (precision.param == Dtype::bf16) return 2e-2;
  if (precision.param == Dtype::fp16) return 4e-3;
  return precision.reduce == Dtype::bf16 ? 4e-3 : 2e-5;
}

template <class T, class G>
void expect_right_run(const Communicator& ranks, const Overrides& overrides) {
  const std::vector<double> expected = reference_losses(overrides);
  const MemoryLedger ledger;
  SmallRun<T, G> run(ranks, overrides);
  const double tolerance = tolerance_of(run.config.precision);
  TrafficByKind before = {};
  for (int i = 0; i < steps; ++i) {
    before = measured_traffic(run.mesh);
    const StepResult result = run.trainer->step();
    EXPECT_FALSE(result.skipped);
    ASSERT_NEAR(result.loss, expected[i], tolerance * expected[i]) << "step " << i + 1;
  }
  const TrafficByKind after = measured_traffic(run.mesh);
  const TrafficByKind traffic = predict_traffic(run.config, run.trainer->plan());
  for (std::size_t i = 0; i < traffic.size(); ++i) {
    EXPECT_EQ(after[i].calls - before[i].calls, traffic[i].calls) << collective_names[i];
    EXPECT_EQ(after[i].bytes - before[i].bytes, traffic[i].bytes) << collective_names[i];
  }
  const MemoryBytes memory = predict_memory(run.config, run.trainer->plan());
  for (std::size_t i = 0; i + 1 < memory.size(); ++i)
    EXPECT_NEAR(static_cast<double>(ledger.peak()[i]), static_cast<double>(memory[i]), rounding)
        << memory_class_names[i];
  EXPECT_EQ(run.trainer->differing_replica(), "");
  EXPECT_TRUE(run.trainer->parameters_are_finite());
}

// All pairs of what a deck can choose: same losses as ddp on one rank in double within the precision's
// tolerance, and memory and traffic as predicted.
TEST(Combinations, AllPairsTrainAlikeAndKeepTheirAccounts) {
  std::vector<std::size_t> counts;
  for (const Factor& factor : factors()) counts.push_back(factor.values.size());
  const auto rows = all_pairs(counts, is_valid);
  EXPECT_GE(rows.size(), 30u);
  std::size_t turn = 0;
  for (const auto& row : rows) {
    const Overrides overrides = overrides_of(row);
    SCOPED_TRACE(describe(overrides));
    const PrecisionConfig precision = small_config(overrides).precision;
    const bool small = size_of(precision.param) == 2;
    choose_gemm(precision.param, small ? "emulated" : "auto");
    const Communicator& ranks = *every_world()[turn++ % every_world().size()];
    with_precision(precision, [&]<class T, class G>() { expect_right_run<T, G>(ranks, overrides); });
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace shardmark
