// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
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
#include "train/loss_scale.hpp"
#include "train/plan.hpp"

namespace shardmark {

struct StepResult {
  double loss = 0;       ///< mean over the terms of the global batch, in nats for tokens
  double grad_norm = 0;  ///< global, before clipping
  double learning_rate = 0;
  double loss_scale = 1, next_loss_scale = 1;
  bool skipped = false;      ///< not finite: weights and optimizer state are as before
  std::string reason;        ///< of a skipped step
  std::uint64_t passes = 1;  ///< over the global batch, each with all its traffic
};

/// How far a run is; saved with it.
struct Position {
  std::uint64_t steps = 0;
  std::uint64_t samples_seen = 0;
  std::uint64_t skipped_steps = 0;
};

/// What the model asks of the data.
SampleShape sample_shape(const ModelConfig& model);

/// Where all meet: a model, its sharded units, an optimizer and the data, stepping together on all ranks. T:
/// parameters and activations, G: gradients.
template <class T, class G = Wide<T>>
class Trainer {
 public:
  using M = Wide<T>;

  /// Collective. References must outlive the trainer. Weights are drawn from the seed. All kernels run on
  /// `exec`.
  Trainer(const RunConfig& config, const Communicator& world, Mesh& mesh, const Dataset& dataset,
          const Exec& exec = Exec());

  /// One optimizer step over the next global batch. Collective. Where the loss or the gradient is not finite,
  /// the step is skipped or Error(invalid) is thrown, as the config says, on all ranks alike.
  StepResult step();

  /// The mean loss over the next global batch, without a step; loss_and_gradients() leaves the gradient in
  /// the units' shards, multiplied by the loss scale. Collective.
  double loss();
  double loss_and_gradients();

  /// The mean loss over the validation split; NaN where there is none. Collective.
  double evaluate();

  /// Forgets a step or an evaluation that an exception of on_action's listener broke off: weights, optimizer
  /// state and position are those after the last whole step. Collective.
  void drop_step() {
    after_action_ = {};
    for (auto& unit : units_) unit.abandon(exec_);
  }

  /// No weight is infinite or NaN, on any rank. Collective.
  bool parameters_are_finite();

  /// The name of the first unit whose masters differ between replicas, or nothing. Collective.
  std::string differing_replica();

  const Position& position() const { return position_; }
  std::uint64_t steps_done() const { return position_.steps; }
  const LossScale& loss_scale() const { return loss_scale_; }
  void resume_at(const Position& position, double loss_scale, std::uint64_t calm_steps) {
    position_ = position;
    loss_scale_.restore(loss_scale, calm_steps);
  }

  const Exec& exec() const { return exec_; }
  /// Of copies of what is offloaded; exec() where nothing is.
  const Exec& copies() const { return area_ == nullptr ? exec_ : area_->copies; }
  /// Waits until all that was launched is done, copies included. The reason is the caller's.
  void settle(const char* reason) const {
    fence(exec_, reason);
    if (area_ != nullptr) fence(area_->copies, reason);
  }
  const RunConfig& config() const { return config_; }
  const Plan& plan() const { return plan_; }
  std::vector<ShardedUnit<T, G>>& units() { return units_; }
  /// Optimizer state: tensor [state][unit].
  std::vector<std::vector<ShardTensor<M>>>& optimizer_state() { return optimizer_state_; }
  std::vector<std::string> optimizer_state_names() const { return state_names(config_.optimizer); }
  const std::vector<Action>& training_schedule() const { return training_schedule_; }
  /// What offloading moved so far.
  Transfers transfers() const { return area_ == nullptr ? Transfers{} : area_->transfers; }
  /// Seconds of the main thread by verb, in training passes; on devices, those of launching.
  const std::array<double, verb_names.size()>& seconds() const { return seconds_; }
  double optimizer_seconds() const { return optimizer_seconds_; }

  /// Told of every action before it is done; for a watchdog. It may throw, on all ranks alike, to break a
  /// step or an evaluation off; drop_step() makes the trainer ready again.
  void on_action(std::function<void(const Action&)> listener) { before_action_ = std::move(listener); }

 private:
  using Check = std::function<void(const Action&, const Batch<T>&)>;

  /// Carries out a schedule over this rank's `samples`; every gradient is that of scale x (sum of losses).
  /// Returns the sum of the losses on this rank.
  double run(const std::vector<Action>& schedule, Split split, const SampleRange& samples, double scale);
  void carry_out(const Action& action, bool training, const Batch<T>& batch);
  double terms(std::uint64_t samples) const;
  double global_norm();
  /// The sum of what `start` has computed for the segments of each unit. Waits once.
  double sum_over_units(const std::function<void(ShardedUnit<T, G>&, const Vector<double>&)>& start);
  void update(double learning_rate, double gradient_scale);
  /// Starts the visit of what is offloaded of a unit.
  void fetch(std::size_t unit);

  /// Does the step's passes again and says where the first value that is not finite turns up. Collective.
  std::string locate_nonfinite();
  /// What is not finite after an action, or nothing.
  std::string nonfinite_after(const Action& action, const Batch<T>& batch);

  const RunConfig& config_;
  const Communicator& world_;
  const Dataset& dataset_;
  Plan plan_;
  Exec exec_;
  std::unique_ptr<Model<T, G>> model_;
  Mesh& mesh_;
  std::shared_ptr<OffloadArea<M>> area_;  ///< null where nothing is offloaded
  std::vector<ShardedUnit<T, G>> units_;
  std::unique_ptr<Optimizer<M, G>> optimizer_;
  std::vector<std::vector<ShardTensor<M>>> optimizer_state_;
  Batcher<T> batcher_;
  OwnedVector<double> loss_sum_, squares_;  ///< squares of a shard, by segment of all units
  OwnedVector<double> chunk_squares_;       ///< those of one unit, by chunk
  HostMirror<double> host_loss_sum_, host_squares_;
  std::vector<Action> training_schedule_;
  std::function<void(const Action&)> before_action_;
  Check after_action_;  ///< set while something is looked for
  Position position_;
  LossScale loss_scale_;
  std::array<double, verb_names.size()> seconds_ = {};
  double optimizer_seconds_ = 0;
};

}  // namespace shardmark
