// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "core/deck.hpp"
#include "train/trainer.hpp"

// Training against figures that PyTorch computed from the same weights and batches:
// scripts/pytorch/golden.py.
namespace shardmark {
namespace {

using nlohmann::json;
using Overrides = std::vector<std::string>;
/// "loss" and "grad_norm" of every step, and "validation_loss" after the last.
using Figures = std::map<std::string, std::vector<double>>;

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

const json& golden() {
  static const json figures = json::parse(read_file(SHARDMARK_TOP "/tests/golden/figures.json"));
  return figures;
}

RunConfig config_of(const json& golden_case, const Overrides& overrides) {
  const std::string name = golden().at("deck");
  Deck deck(read_file(SHARDMARK_TOP "/" + name), name);
  deck.set("data.path=\"" SHARDMARK_TOP "/tests/golden/tokens.bin\"");
  for (const std::string assignment : golden_case.at("set")) deck.set(assignment);
  for (const std::string& assignment : overrides) deck.set(assignment);
  return read_run_config(deck);
}

template <class T>
Figures train(const RunConfig& config) {
  const auto world = make_world_communicator("mpi");
  Mesh mesh = make_mesh(*world, config.parallel.shard_size_for(world->size()));
  const auto dataset = make_dataset(config.data, sample_shape(config.model), config.train.seed);
  Trainer<T> trainer(config, *world, mesh, *dataset);
  Figures figures;
  for (std::uint64_t step = 0; step < config.train.steps; ++step) {
    const StepResult result = trainer.step();
    figures["loss"].push_back(result.loss);
    figures["grad_norm"].push_back(result.grad_norm);
  }
  figures["validation_loss"].push_back(trainer.evaluate());
  return figures;
}

Figures train(const json& golden_case, const Overrides& overrides) {
  const RunConfig config = config_of(golden_case, overrides);
  return config.precision.param == Dtype::fp64 ? train<double>(config) : train<float>(config);
}

double tolerance_of(const json& golden_case) {
  return config_of(golden_case, {}).precision.param == Dtype::fp64 ? 1e-9 : 2e-4;
}

TEST(Golden, LossesAndGradientNormsAreThoseOfPytorch) {
  for (const json& golden_case : golden().at("cases")) {
    const double tolerance = tolerance_of(golden_case);
    for (const char* strategy : {"ddp", "zero3"}) {
      for (const auto& [key, values] : train(golden_case, {std::string("parallel.strategy=") + strategy})) {
        const std::vector<double> expected = golden_case.at(key);
        ASSERT_EQ(values.size(), expected.size());
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(values[i], expected[i], tolerance * std::abs(expected[i]))
              << golden_case.at("name") << " " << strategy << " " << key << " " << i;
      }
    }
  }
}

// The comparison is sharp: with any one number of the optimizer a little off, the losses are far outside.
TEST(Golden, ASlightlyOtherOptimizerShows) {
  if (make_world_communicator("mpi")->size() > 1) GTEST_SKIP() << "shown by one rank";
  const json& golden_case = golden().at("cases").at(0);
  const std::vector<double> expected = golden_case.at("loss");
  for (const char* change :
       {"optimizer.eps=1.1e-8", "optimizer.betas=[0.9, 0.9501]", "optimizer.weight_decay=0.1001",
        "optimizer.clip=1.751", "schedule.min_lr=3.01e-4"}) {
    const std::vector<double> losses = train(golden_case, {change}).at("loss");
    double largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      largest = std::max(largest, std::abs(losses[i] / expected[i] - 1));
    EXPECT_GT(largest, 10 * tolerance_of(golden_case)) << change;
  }
}

}  // namespace
}  // namespace shardmark
