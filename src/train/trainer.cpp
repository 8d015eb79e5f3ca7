// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "optim/clip.hpp"

namespace shardmark {

namespace {

std::size_t micro_batches_for(std::uint64_t samples, int ranks, std::size_t micro_batch) {
  const std::uint64_t most = (samples + ranks - 1) / ranks;
  return (most + micro_batch - 1) / micro_batch;
}

template <class T>
ScheduleInput schedule_input(const RunConfig& config, const Model<T>& model, const Mesh& mesh) {
  ScheduleInput input;
  for (const StageSpec& stage : model.stages()) input.unit_of_stage.push_back(stage.unit);
  for (const UnitSpec& unit : model.units()) input.is_root.push_back(unit.root);
  input.strategy = config.parallel.strategy;
  input.shard_size = mesh.shard_size;
  input.replicas = mesh.replicas;
  input.prefetch = config.parallel.prefetch;
  input.reductions_in_flight = config.parallel.reductions_in_flight();
  return input;
}

template <class T>
std::vector<ShardedUnit<T>> shard(const Model<T>& model, const RunConfig& config, Mesh& mesh) {
  std::vector<std::vector<Parameter>> units;
  std::vector<bool> is_root;
  for (const UnitSpec& unit : model.units()) {
    units.push_back(unit.parameters);
    is_root.push_back(unit.root);
  }
  return make_sharded_units<T>(units, is_root, config.parallel, mesh);
}

template <class T>
std::unique_ptr<Optimizer<T>> make_optimizer_for(const OptimizerConfig& config,
                                                 const std::vector<ShardedUnit<T>>& units) {
  std::vector<std::size_t> slices;
  for (const auto& unit : units) slices.push_back(unit.layout().slice);
  return make_optimizer<T>(config, slices);
}

template <class T>
FlatShard<T> flat_shard(const ShardedUnit<T>& unit) {
  return {unit.parameter_shard(), unit.gradient_shard(), &unit.segments()};
}

}  // namespace

SampleShape sample_shape(const ModelConfig& model) {
  if (model.kind == "mlp") return {0, 0, model.sizes.front(), model.sizes.back()};
  return {model.context, model.vocab, 0, 0};
}

template <class T>
Trainer<T>::Trainer(const RunConfig& config, const Communicator& world, Mesh& mesh, const Dataset& dataset)
    : config_(config),
      world_(world),
      dataset_(dataset),
      model_(make_model<T>(config.model, config.train.micro_batch)),
      mesh_(mesh),
      units_(shard(*model_, config, mesh)),
      optimizer_(make_optimizer_for(config.optimizer, units_)),
      batcher_(dataset, sample_shape(config.model), config.train.micro_batch),
      loss_sum_(allocate<double>("shardmark::trainer::loss_sum", 1)),
      schedule_input_(schedule_input(config, *model_, mesh)) {
  for (auto& unit : units_) unit.initialize(exec_, config.train.seed);
  schedule_input_.micro_batches =
      micro_batches_for(config.train.global_batch, world.size(), config.train.micro_batch);
  training_schedule_ = make_training_schedule(schedule_input_);
}

template <class T>
StepResult Trainer<T>::step() {
  const SampleRange global{samples_seen_, config_.train.global_batch};
  const double terms = static_cast<double>(global.count) * static_cast<double>(model_->terms_per_sample());
  for (auto& unit : units_) unit.forget_gradients();
  const double loss_sum =
      run(training_schedule_, Split::training, share_of(global, world_.rank(), world_.size()), 1.0 / terms);

  StepResult result;
  result.loss = world_.host_sum(loss_sum) / terms;
  const double scale = clip_by_global_norm(&result.grad_norm);
  if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm))
    throw Error(ExitCode::invalid,
                fmt::format("the loss ({}) or the gradient norm ({}) of step {} is not finite", result.loss,
                            result.grad_norm, steps_done_ + 1),
                true);
  ++steps_done_;
  samples_seen_ += global.count;
  result.learning_rate =
      learning_rate(config_.schedule, config_.optimizer.lr, steps_done_, config_.train.steps);
  for (std::size_t u = 0; u < units_.size(); ++u)
    optimizer_->step(exec_, u, flat_shard(units_[u]), result.learning_rate, scale, steps_done_);
  return result;
}

template <class T>
double Trainer<T>::run(const std::vector<Action>& schedule, Split split, const SampleRange& samples,
                       double scale) {
  const bool training = split == Split::training;
  Kokkos::deep_copy(exec_, loss_sum_, 0.0);
  Batch<T> batch;
  const auto unit_of = [&](std::size_t stage) -> ShardedUnit<T>& {
    return units_[schedule_input_.unit_of_stage[stage]];
  };
  for (const auto& [verb, index] : schedule) {
    switch (verb) {
      case Verb::begin_micro_batch: {
        const std::uint64_t begin = std::min<std::uint64_t>(index * config_.train.micro_batch, samples.count);
        const std::uint64_t count = std::min<std::uint64_t>(config_.train.micro_batch, samples.count - begin);
        batch = batcher_.load(exec_, split, samples.first + begin, count);
        batch.loss_scale = scale;
        break;
      }
      case Verb::unshard:
        units_[index].start_unshard(exec_);
        break;
      case Verb::wait_unsharded:
        units_[index].wait_unsharded();
        break;
      case Verb::forward:
        model_->forward(exec_, index, unit_of(index).parameters(), batch);
        break;
      case Verb::loss:
        if (training) {
          model_->loss_and_backward(exec_, unit_of(index).parameters(), unit_of(index).gradients(), batch,
                                    loss_sum_);
        } else {
          model_->loss(exec_, unit_of(index).parameters(), batch, loss_sum_);
        }
        break;
      case Verb::backward:
        model_->backward(exec_, index, unit_of(index).parameters(), unit_of(index).gradients(), batch);
        break;
      case Verb::reshard:
        units_[index].reshard();
        break;
      case Verb::open_gradients:
        units_[index].open_gradients(exec_);
        break;
      case Verb::reduce:
        units_[index].start_reduce(exec_);
        break;
      case Verb::wait_reduced:
        units_[index].wait_reduced(exec_);
        break;
      case Verb::all_reduce:
        units_[index].start_all_reduce(exec_);
        break;
      case Verb::wait_all_reduced:
        units_[index].wait_all_reduced();
        break;
    }
  }
  auto loss_sum = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), loss_sum_);
  return loss_sum(0);
}

template <class T>
double Trainer<T>::clip_by_global_norm(double* norm) {
  double squares = 0;
  for (const auto& unit : units_) squares += sum_of_squares(exec_, flat_shard(unit));
  *norm = std::sqrt(mesh_.shard_group->host_sum(squares));
  return clip_scale(*norm, config_.optimizer.clip);
}

template <class T>
double Trainer<T>::evaluate() {
  const SampleRange all{0, dataset_.samples(Split::validation)};
  if (all.count == 0) return std::numeric_limits<double>::quiet_NaN();
  ScheduleInput input = schedule_input_;
  input.micro_batches = micro_batches_for(all.count, world_.size(), config_.train.micro_batch);
  const double sum = run(make_evaluation_schedule(input), Split::validation,
                         share_of(all, world_.rank(), world_.size()), 0.0);
  return world_.host_sum(sum) /
         (static_cast<double>(all.count) * static_cast<double>(model_->terms_per_sample()));
}

template <class T>
bool Trainer<T>::parameters_are_finite() const {
  double squares = 0;
  for (const auto& unit : units_)
    squares += sum_of_squares<T>(exec_, {unit.parameter_shard(), unit.parameter_shard(), &unit.segments()});
  return world_.host_max(std::isfinite(squares) ? 0 : 1) == 0;
}

template <class T>
std::size_t Trainer<T>::parameter_count() const {
  std::size_t count = 0;
  for (const auto& unit : units_) count += unit.layout().elements;
  return count;
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace shardmark
