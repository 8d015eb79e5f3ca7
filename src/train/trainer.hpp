// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "data/dataset.hpp"
#include "model/model.hpp"
#include "optim/optimizer.hpp"
#include "sharding/schedule.hpp"
#include "sharding/sharded_unit.hpp"
#include "train/batcher.hpp"
#include "train/config.hpp"

namespace shardmark {

struct StepResult {
  double loss = 0;       ///< mean over the terms of the global batch, in nats for tokens
  double grad_norm = 0;  ///< global, before clipping
  double learning_rate = 0;
};

/// What the model asks of the data.
SampleShape sample_shape(const ModelConfig& model);

/// Where all meet: a model, its sharded units, an optimizer and the data, stepping together on all ranks.
template <class T>
class Trainer {
 public:
  /// Collective. References must outlive the trainer. Weights are drawn from the seed.
  Trainer(const RunConfig& config, const Communicator& world, Mesh& mesh, const Dataset& dataset);

  /// One optimizer step over the next global batch. Collective. Throws Error(invalid) where the loss is not
  /// finite.
  StepResult step();

  /// The mean loss over the validation split; NaN where there is none. Collective.
  double evaluate();

  /// No weight is infinite or NaN, on any rank. Collective.
  bool parameters_are_finite() const;

  std::uint64_t steps_done() const { return steps_done_; }
  std::uint64_t samples_seen() const { return samples_seen_; }
  void resume_at(std::uint64_t step, std::uint64_t samples) {
    steps_done_ = step;
    samples_seen_ = samples;
  }

  const Exec& exec() const { return exec_; }
  const Model<T>& model() const { return *model_; }
  const std::vector<ShardedUnit<T>>& units() const { return units_; }
  std::vector<ShardedUnit<T>>& units() { return units_; }
  const Optimizer<T>& optimizer() const { return *optimizer_; }
  const std::vector<Action>& training_schedule() const { return training_schedule_; }
  std::size_t parameter_count() const;

 private:
  /// Carries out a schedule over this rank's `samples`; every gradient is that of scale x (sum of losses).
  /// Returns the sum of the losses on this rank.
  double run(const std::vector<Action>& schedule, Split split, const SampleRange& samples, double scale);
  double clip_by_global_norm(double* norm);

  const RunConfig& config_;
  const Communicator& world_;
  const Dataset& dataset_;
  Exec exec_;
  std::unique_ptr<Model<T>> model_;
  Mesh& mesh_;
  std::vector<ShardedUnit<T>> units_;
  std::unique_ptr<Optimizer<T>> optimizer_;
  Batcher<T> batcher_;
  OwnedVector<double> loss_sum_;
  ScheduleInput schedule_input_;
  std::vector<Action> training_schedule_;
  std::uint64_t steps_done_ = 0;
  std::uint64_t samples_seen_ = 0;
};

}  // namespace shardmark
