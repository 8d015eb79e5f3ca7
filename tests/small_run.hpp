// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/deck.hpp"
#include "train/state.hpp"
#include "train/trainer.hpp"

namespace shardmark {

/// A GPT small and odd enough for tests: no size divides another, ranks get unequal shares, two micro-batches
/// a step.
inline const char* small_deck = R"(
[model]
kind = "gpt"
layers = 2
width = 12
heads = 3
context = 5
vocab = 11
[data]
kind = "markov"
states = 11
successors = 3
validation_samples = 9
[train]
steps = 20
global_batch = 7
micro_batch = 2
[optimizer]
lr = 1e-2
[schedule]
warmup = 3
)";

inline RunConfig small_config(const std::vector<std::string>& overrides) {
  Deck deck(small_deck, "small");
  for (const std::string& assignment : overrides) deck.set(assignment);
  return read_run_config(deck);
}

/// A trainer with all that it stands on.
template <class T, class G = Wide<T>>
struct SmallRun {
  RunConfig config;
  std::unique_ptr<Communicator> world;
  Mesh mesh;
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<Trainer<T, G>> trainer;

  /// Collective over `ranks`.
  SmallRun(const Communicator& ranks, std::vector<std::string> overrides, const Exec& exec = Exec()) {
    overrides.push_back(std::string("precision.param=") + name_of(dtype_of<T>));
    overrides.push_back(std::string("precision.reduce=") + name_of(dtype_of<G>));
    config = small_config(overrides);
    world = ranks.split(0, ranks.rank());
    mesh = make_mesh(*world, config.parallel.shard_size_for(world->size()));
    dataset = make_dataset(config.data, sample_shape(config.model), config.train.seed);
    trainer = std::make_unique<Trainer<T, G>>(config, *world, mesh, *dataset, exec);
  }

  std::vector<StepResult> steps(int n) {
    std::vector<StepResult> results;
    for (int i = 0; i < n; ++i) results.push_back(trainer->step());
    return results;
  }
};

/// A strategy with the options that it needs at P ranks, as overrides.
struct StrategyCase {
  std::string name;
  std::vector<std::string> overrides;
};

/// Every strategy that P ranks allow, hybrid with every shard size, and the overrides of resharding and
/// prefetch.
inline std::vector<StrategyCase> strategy_cases(int ranks) {
  std::vector<StrategyCase> cases;
  for (const char* name : {"ddp", "zero1", "zero2", "zero3"})
    cases.push_back({name, {std::string("parallel.strategy=") + name}});
  for (int size : valid_shard_sizes(ranks)) {
    const std::string shard = std::to_string(size);
    cases.push_back({"hybrid S=" + shard, {"parallel.strategy=hybrid", "parallel.shard_size=" + shard}});
  }
  for (int prefetch : {0, 2, 3})
    cases.push_back({"zero3 k=" + std::to_string(prefetch),
                     {"parallel.strategy=zero3", "parallel.prefetch=" + std::to_string(prefetch)}});
  cases.push_back({"zero3 kept", {"parallel.strategy=zero3", "parallel.reshard_after_forward=false"}});
  cases.push_back({"zero2 resharded", {"parallel.strategy=zero2", "parallel.reshard_after_forward=true"}});
  return cases;
}

}  // namespace shardmark
