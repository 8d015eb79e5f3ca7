// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint_sample.hpp"
#include "label_checker.hpp"
#include "small_run.hpp"
#include "train/run.hpp"

namespace shardmark {
namespace {

// What runs different kernels or allocates differently; the first measures the peak, too.
const std::vector<std::vector<std::string>> variants = {
    {},
    {"train.peak_flops=1e9", "parallel.strategy=ddp", "optimizer.kind=sgd", "model.tie_embeddings=false"},
    {"train.peak_flops=1e9", "parallel.strategy=hybrid", "parallel.shard_size=1"},
    {"train.peak_flops=1e9", "model.kind=mlp", "model.sizes=[7,9,6,3]", "data.kind=teacher"},
    {"train.peak_flops=1e9", "precision.param=fp64", "parallel.strategy=zero2"},
};

/// A run with its checkpoint, and a second one that goes on from it.
void train_and_resume(const std::string& folder, const std::vector<std::string>& variant) {
  RunOptions options;
  options.deck = folder + "/deck.toml";
  options.overrides = {"train.steps=2", "train.eval_every=1", "checkpoint.every=1", "output.dir=" + folder};
  options.overrides.insert(options.overrides.end(), variant.begin(), variant.end());
  EXPECT_EQ(run_training(options), ExitCode::success);
  options.overrides[0] = "train.steps=3";
  options.resume.from = "auto";
  EXPECT_EQ(run_training(options), ExitCode::success);
}

TEST(Labels, OfTrainingAreRight) {
  const auto world = make_world_communicator("mpi");
  for (const auto& variant : variants) {
    const checkpoint::TemporaryFolder folder(*world);
    if (world->rank() == 0) std::ofstream(folder / "deck.toml") << small_deck;
    const LabelChecker checker;
    train_and_resume(folder.path(), variant);
    EXPECT_EQ(checker.wrong(), std::set<std::string>());
    EXPECT_EQ(checker.seen().count("shardmark::trainer::loss_sum"), 1u);
    EXPECT_GT(checker.seen().size(), 20u);
  }
}

}  // namespace
}  // namespace shardmark
