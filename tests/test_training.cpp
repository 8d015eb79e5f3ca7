// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "checkpoint/format.hpp"
#include "small_run.hpp"
#include "train/ledger.hpp"

namespace shardmark {
namespace {

using Overrides = std::vector<std::string>;

Overrides operator+(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Communicator& world() {
  static const Communicator* const communicator = make_world_communicator("mpi").release();  // outlives main
  return *communicator;
}
/// A group of this rank alone.
std::unique_ptr<Communicator> alone() {
  return world().split(world().rank(), 0);
}

const std::vector<Overrides> models = {
    {},
    {"model.tie_embeddings=false"},
    {"model.kind=mlp", "model.sizes=[7,9,6,3]", "data.kind=teacher"},
};

template <class T>
void expect_same_losses_as_one_rank(double tolerance) {
  for (const Overrides& model : models) {
    const auto self = alone();
    SmallRun<T> reference(*self, model + Overrides{"parallel.strategy=ddp"});
    const auto expected = reference.steps(20);
    const double validation = reference.trainer->evaluate();
    for (const StrategyCase& c : strategy_cases(world().size())) {
      SmallRun<T> run(world(), model + c.overrides);
      const auto results = run.steps(20);
      for (std::size_t i = 0; i < results.size(); ++i) {
        ASSERT_NEAR(results[i].loss, expected[i].loss, tolerance * expected[i].loss)
            << c.name << " step " << i + 1;
        if (i == 0) {
          ASSERT_NEAR(results[i].grad_norm, expected[i].grad_norm, tolerance * expected[i].grad_norm)
              << c.name;
        }
      }
      ASSERT_NEAR(run.trainer->evaluate(), validation, tolerance * validation) << c.name;
    }
    EXPECT_LT(expected.back().loss, expected.front().loss);  // it learns
  }
}

TEST(Strategies, SameLossesAsOneRankInDouble) {
  expect_same_losses_as_one_rank<double>(1e-10);
}
TEST(Strategies, SameLossesAsOneRankInFloat) {
  expect_same_losses_as_one_rank<float>(1e-5);
}

TEST(Strategies, PredictedTrafficIsWhatWasSent) {
  for (const Overrides& model : models) {
    for (const StrategyCase& c : strategy_cases(world().size())) {
      SmallRun<float> run(world(), model + c.overrides);
      run.trainer->step();
      const auto before = measured_traffic(run.mesh);
      run.trainer->step();
      const auto after = measured_traffic(run.mesh);
      const auto predicted = predict_traffic(run.config, run.trainer->plan());
      for (std::size_t i = 0; i < predicted.size(); ++i) {
        EXPECT_EQ(after[i].calls - before[i].calls, predicted[i].calls)
            << c.name << " " << collective_names[i];
        EXPECT_EQ(after[i].bytes - before[i].bytes, predicted[i].bytes)
            << c.name << " " << collective_names[i];
      }
    }
  }
}

// Closed formulas: ZeRO's 2, 2, 2, 3 times (P-1)/P of the parameter bytes, for a model without a root and
// with one micro-batch; units of 64 x P elements, so that nothing is padding.
TEST(Strategies, TrafficIsThatOfTheZeroPaper) {
  const int P = world().size();
  if (P == 1) GTEST_SKIP() << "one rank sends nothing";
  const std::string width = std::to_string(64 * P);
  const Overrides mlp = {"model.kind=mlp", "model.sizes=[" + width + "," + width + "," + width + "]",
                         "data.kind=teacher", "train.global_batch=" + std::to_string(P),
                         "train.micro_batch=1"};
  const double parameters = 2.0 * 64 * P * (64 * P + 1) * sizeof(float);
  // The last layer computes its loss forward and backward in one stay, so it is gathered once.
  const std::map<std::string, double> factors = {{"ddp", 2}, {"zero1", 2}, {"zero2", 2}, {"zero3", 2.5}};
  for (const auto& [strategy, factor] : factors) {
    SmallRun<float> run(world(), mlp + Overrides{"parallel.strategy=" + strategy});
    run.trainer->step();
    double bytes = 0;
    for (const Traffic& traffic : measured_traffic(run.mesh)) bytes += static_cast<double>(traffic.bytes);
    EXPECT_DOUBLE_EQ(bytes, factor * parameters * (P - 1) / P) << strategy;
  }
}

TEST(Reproducibility, TwoRunsAreBitwiseEqual) {
  for (const StrategyCase& c : strategy_cases(world().size())) {
    SmallRun<float> first(world(), c.overrides), second(world(), c.overrides);
    const auto a = first.steps(5), b = second.steps(5);
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].loss, b[i].loss) << c.name;
      EXPECT_EQ(a[i].grad_norm, b[i].grad_norm) << c.name;
    }
    TrainerState<float> of_first(*first.trainer, first.mesh), of_second(*second.trainer, second.mesh);
    EXPECT_EQ(of_first.fingerprints(world()), of_second.fingerprints(world())) << c.name;
  }
}

TEST(Initialization, DoesNotDependOnRanksOrStrategy) {
  const auto self = alone();
  SmallRun<double> one(*self, {});
  const auto expected = TrainerState<double>(*one.trainer, one.mesh).fingerprints(*self);
  for (const StrategyCase& c : strategy_cases(world().size())) {
    SmallRun<double> run(world(), c.overrides);
    EXPECT_EQ(TrainerState<double>(*run.trainer, run.mesh).fingerprints(world()), expected) << c.name;
  }
}

TEST(Batches, SharesCoverEverySampleOnce) {
  for (std::uint64_t count : {0u, 1u, 5u, 7u, 64u}) {
    for (int ranks : {1, 2, 3, 7, 11}) {
      std::uint64_t next = 100;
      for (int r = 0; r < ranks; ++r) {
        const SampleRange share = share_of({100, count}, r, ranks);
        EXPECT_EQ(share.first, next);
        EXPECT_LE(share.count, (count + ranks - 1) / ranks);
        next += share.count;
      }
      EXPECT_EQ(next, 100 + count);
    }
  }
}

// Fewer samples than ranks, more ranks than rows of a tensor: everyone still joins.
TEST(Evaluation, IsNoPartOfTheTimeOfTrainingPasses) {
  SmallRun<double> run(world(), {"parallel.strategy=zero3"});
  run.steps(2);
  const auto before = run.trainer->seconds();
  run.trainer->evaluate();
  EXPECT_EQ(run.trainer->seconds(), before);
}

TEST(Batches, RanksWithoutWorkJoin) {
  const auto self = alone();
  const Overrides tiny = {"train.global_batch=1", "model.width=3",     "model.heads=1",  "model.vocab=3",
                          "data.states=3",        "data.successors=2", "model.context=2"};
  SmallRun<double> reference(*self, tiny);
  const auto expected = reference.steps(10);
  for (const StrategyCase& c : strategy_cases(world().size())) {
    SmallRun<double> run(world(), tiny + c.overrides);
    const auto results = run.steps(10);
    for (std::size_t i = 0; i < results.size(); ++i)
      ASSERT_NEAR(results[i].loss, expected[i].loss, 1e-10 * expected[i].loss) << c.name;
  }
}

TEST(NonFinite, StopsOnAllRanks) {
  SmallRun<float> run(world(), {"optimizer.lr=1e30", "optimizer.clip=0", "schedule.warmup=0"});
  try {
    run.steps(20);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::invalid);
    EXPECT_TRUE(error.everywhere());
  }
}

}  // namespace
}  // namespace shardmark
