// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "optim/clip.hpp"
#include "sharding/flat_kernels.hpp"

namespace shardmark {

namespace {

using Clock = std::chrono::steady_clock;
/// NaN may have a sign, which tells nothing.
double unsigned_nan(double value) {
  return std::isnan(value) ? std::abs(value) : value;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class M>
std::shared_ptr<OffloadArea<M>> make_offload_area(const RunConfig& config, const Plan& plan, Mesh& mesh) {
  const Offload offload = config.parallel.offload;
  if (offload == Offload::none) return nullptr;
  std::size_t largest = 0;
  for (const UnitLayout& layout : plan.layouts) largest = std::max(largest, layout.slice);
  const std::vector<std::size_t> slots(staging_slots(offload, state_names(config.optimizer).size()), largest);
  return std::make_shared<OffloadArea<M>>(
      OffloadArea<M>{make_instance(), SlotPool<M>(*mesh.shard_group, slots, "shardmark::trainer::staging")});
}

template <class M>
std::vector<std::vector<ShardTensor<M>>> make_optimizer_state(const OptimizerConfig& config, const Plan& plan,
                                                              const std::shared_ptr<OffloadArea<M>>& area) {
  std::vector<std::vector<ShardTensor<M>>> states;
  for (const std::string& name : state_names(config)) {
    auto& units = states.emplace_back();
    for (const UnitLayout& layout : plan.layouts) {
      if (area != nullptr)
        units.emplace_back("shardmark::trainer::offloaded_state", layout.slice, area);
      else
        units.emplace_back("shardmark::trainer::optimizer_" + name, layout.slice);
    }
  }
  return states;
}

template <class Units>
std::size_t count_segments(const Units& units) {
  std::size_t count = 0;
  for (const auto& unit : units) count += unit.segments().size();
  return count;
}

template <class Units>
std::size_t most_chunks(const Units& units) {
  std::size_t most = 0;
  for (const auto& unit : units) most = std::max(most, unit.chunks().count());
  return most;
}

LossScale make_loss_scale(const PrecisionConfig& precision) {
  if (precision.param != Dtype::fp16) return {};
  return LossScale(precision.loss_scale, precision.loss_scale_growth);
}

}  // namespace

SampleShape sample_shape(const ModelConfig& model) {
  if (model.kind == "mlp") return {0, 0, model.sizes.front(), model.sizes.back()};
  return {model.context, model.vocab, 0, 0};
}

template <class T, class G>
Trainer<T, G>::Trainer(const RunConfig& config, const Communicator& world, Mesh& mesh, const Dataset& dataset,
                       const Exec& exec)
    : config_(config),
      world_(world),
      dataset_(dataset),
      plan_(make_plan(config, mesh)),
      exec_(exec),
      model_(make_model<T, G>(config.model, config.activations())),
      mesh_(mesh),
      area_(make_offload_area<M>(config, plan_, mesh)),
      units_(make_sharded_units<T, G>(plan_.units, config.parallel, mesh, area_)),
      optimizer_(make_optimizer<M, G>(config.optimizer)),
      optimizer_state_(make_optimizer_state<M>(config.optimizer, plan_, area_)),
      batcher_(dataset, sample_shape(config.model), config.train.micro_batch),
      loss_sum_(allocate<double>("shardmark::trainer::loss_sum", 1)),
      squares_(allocate<double>("shardmark::trainer::squares", count_segments(units_))),
      chunk_squares_(allocate<double>("shardmark::trainer::chunk_squares", most_chunks(units_))),
      host_loss_sum_(mirror_of(loss_sum_)),
      host_squares_(mirror_of(squares_)),
      training_schedule_(make_training_schedule(plan_.schedule)),
      loss_scale_(make_loss_scale(config.precision)) {
  for (auto& unit : units_) unit.initialize(exec_, config.train.seed);
}

template <class T, class G>
double Trainer<T, G>::terms(std::uint64_t samples) const {
  return static_cast<double>(samples) * static_cast<double>(plan_.model.terms_per_sample);
}

template <class T, class G>
double Trainer<T, G>::loss() {
  const SampleRange global{position_.samples_seen, config_.train.global_batch};
  const SampleRange own = share_of(global, world_.rank(), world_.size());
  const double sum = run(make_evaluation_schedule(plan_.schedule), Split::training, own, 0.0);
  return world_.host_sum(sum) / terms(global.count);
}

template <class T, class G>
double Trainer<T, G>::loss_and_gradients() {
  const SampleRange global{position_.samples_seen, config_.train.global_batch};
  const SampleRange own = share_of(global, world_.rank(), world_.size());
  const double sum =
      run(training_schedule_, Split::training, own, loss_scale_.factor() / terms(global.count));
  return world_.host_sum(sum) / terms(global.count);
}

template <class T, class G>
StepResult Trainer<T, G>::step() {
  const std::uint64_t number = position_.steps + 1;
  StepResult result;
  result.loss_scale = loss_scale_.factor();
  result.loss = unsigned_nan(loss_and_gradients());
  result.grad_norm = unsigned_nan(global_norm() / loss_scale_.factor());
  result.learning_rate = learning_rate(config_.schedule, config_.optimizer.lr, number, config_.train.steps);

  result.skipped = !std::isfinite(result.loss) || !std::isfinite(result.grad_norm);
  if (!result.skipped) {
    loss_scale_.went_well();
    const double clip = clip_scale(result.grad_norm, config_.optimizer.clip);
    update(result.learning_rate, clip / result.loss_scale);
  } else if (std::isfinite(result.loss) && loss_scale_.can_shrink()) {
    loss_scale_.overflowed();
    result.reason = fmt::format("a gradient overflowed, loss scale {} now", loss_scale_.factor());
  } else {
    result.passes = 2;
    result.reason =
        fmt::format("the loss ({}) or the gradient norm ({}) of step {} is not finite; it began in {}",
                    result.loss, result.grad_norm, number, locate_nonfinite());
    if (config_.train.on_nonfinite == OnNonfinite::stop) throw Error(ExitCode::invalid, result.reason, true);
  }
  result.next_loss_scale = loss_scale_.factor();
  position_.steps = number;
  position_.samples_seen += config_.train.global_batch;
  position_.skipped_steps += result.skipped ? 1 : 0;
  return result;
}

template <class T, class G>
void Trainer<T, G>::update(double learning_rate, double gradient_scale) {
  const auto start = Clock::now();
  const std::uint64_t number = position_.steps + 1 - position_.skipped_steps;
  fetch(0);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (u + 1 < units_.size()) fetch(u + 1);
    ShardedUnit<T, G>& unit = units_[u];
    FlatShard<M, G> shard{unit.masters().bring(exec_), unit.gradient_shard(), {}, &unit.chunks()};
    for (auto& state : optimizer_state_) shard.state.push_back(state[u].bring(exec_));
    optimizer_->step(exec_, shard, learning_rate, gradient_scale, number);
    unit.masters().take_home(exec_);
    for (auto& state : optimizer_state_) state[u].take_home(exec_);
  }
  optimizer_seconds_ += seconds_since(start);
}

template <class T, class G>
void Trainer<T, G>::fetch(std::size_t unit) {
  units_[unit].masters().fetch(exec_);
  for (auto& state : optimizer_state_) state[unit].fetch(exec_);
}

template <class T, class G>
double Trainer<T, G>::run(const std::vector<Action>& schedule, Split split, const SampleRange& samples,
                          double scale) {
  const bool training = &schedule == &training_schedule_;
  if (training)
    for (auto& unit : units_) unit.forget_gradients();
  Kokkos::deep_copy(exec_, loss_sum_, 0.0);
  Batch<T> batch;
  const std::uint64_t most = config_.train.micro_batch;
  const auto act = [&](const Action& action) {
    if (before_action_) before_action_(action);
    const auto start = Clock::now();
    if (action.verb == Verb::begin_micro_batch) {
      const std::uint64_t begin = std::min<std::uint64_t>(action.index * most, samples.count);
      batch = batcher_.load(exec_, split, samples.first + begin, std::min(most, samples.count - begin));
      batch.loss_scale = scale;
    } else {
      if (action.verb == Verb::open_gradients) batch.new_gradients = true;
      carry_out(action, training, batch);
    }
    if (training) seconds_[static_cast<std::size_t>(action.verb)] += seconds_since(start);
    if (after_action_) after_action_(action, batch);
  };
  for (std::size_t i = 0, end = 0; i < schedule.size(); i = end) {
    end = i + started_together(schedule, i);
    const auto act_up_to_end = [&] { std::for_each(&schedule[i], &schedule[i] + (end - i), act); };
    end - i > 1 ? mesh_.everyone->group_calls(act_up_to_end) : act_up_to_end();
  }
  Kokkos::deep_copy(exec_, host_loss_sum_, loss_sum_);
  fence(exec_, "shardmark::trainer::run: the host reads the loss");
  return host_loss_sum_(0);
}

template <class T, class G>
void Trainer<T, G>::carry_out(const Action& action, bool training, const Batch<T>& batch) {
  const std::size_t index = action.index;
  const auto unit_of = [&](std::size_t stage) -> ShardedUnit<T, G>& {
    return units_[plan_.units.unit_of_stage[stage]];
  };
  const auto parameters = [&](std::size_t stage) {
    return unit_of(stage).parameters(plan_.units.first_parameter[stage]);
  };
  const auto gradients = [&](std::size_t stage) {
    return unit_of(stage).gradients(plan_.units.first_parameter[stage]);
  };
  switch (action.verb) {
    case Verb::begin_micro_batch:
      break;
    case Verb::unshard:
      return units_[index].start_unshard(exec_);
    case Verb::wait_unsharded:
      return units_[index].wait_unsharded(exec_);
    case Verb::forward:
      return model_->forward(exec_, index, parameters(index), batch);
    case Verb::loss:
      if (!training) return model_->loss(exec_, parameters(index), batch, loss_sum_);
      return model_->loss_and_backward(exec_, parameters(index), gradients(index), batch, loss_sum_);
    case Verb::backward:
      return model_->backward(exec_, index, parameters(index), gradients(index), batch);
    case Verb::reshard:
      return units_[index].reshard();
    case Verb::open_gradients:
      // Zeros where nothing will write, or where somebody looks before everything is written.
      return units_[index].open_gradients(exec_, batch.samples == 0 || after_action_ != nullptr);
    case Verb::reduce:
      return units_[index].start_reduce(exec_);
    case Verb::wait_reduced:
      return units_[index].wait_reduced(exec_);
    case Verb::all_reduce:
      return units_[index].start_all_reduce(exec_);
    case Verb::wait_all_reduced:
      return units_[index].wait_all_reduced();
  }
}

template <class T, class G>
double Trainer<T, G>::sum_over_units(
    const std::function<void(ShardedUnit<T, G>&, const Vector<double>&)>& start) {
  std::size_t begin = 0;
  for (auto& unit : units_) {
    const std::size_t end = begin + unit.segments().size();
    start(unit, slice<double>(squares_, begin, end));
    begin = end;
  }
  Kokkos::deep_copy(exec_, host_squares_, squares_);
  fence(exec_, "shardmark::trainer::sum_over_units: the host adds up");
  double sum = 0;
  std::size_t i = 0;
  for (const auto& unit : units_) {
    double of_unit = 0;
    for (std::size_t s = 0; s < unit.segments().size(); ++s) of_unit += host_squares_(i++);
    sum += of_unit;
  }
  return sum;
}

template <class T, class G>
double Trainer<T, G>::global_norm() {
  const double squares = sum_over_units([&](const ShardedUnit<T, G>& unit, const Vector<double>& sums) {
    sums_of_squares<G>(exec_, unit.gradient_shard(), unit.chunks(), chunk_squares_, sums);
  });
  return std::sqrt(mesh_.shard_group->host_sum(squares));
}

template <class T, class G>
double Trainer<T, G>::evaluate() {
  const SampleRange all{0, dataset_.samples(Split::validation)};
  if (all.count == 0) return std::numeric_limits<double>::quiet_NaN();
  const SampleRange own = share_of(all, world_.rank(), world_.size());
  const std::uint64_t micro_batch = config_.train.micro_batch;
  const std::size_t micro_batches = micro_batches_for(all.count, world_.size(), micro_batch);
  constexpr std::size_t most = 256;  // micro-batches in a schedule, which is a list in memory
  double sum = 0;
  for (std::size_t begin = 0; begin < micro_batches; begin += most) {
    ScheduleInput input = plan_.schedule;
    input.micro_batches = std::min(most, micro_batches - begin);
    const std::uint64_t offset = std::min(begin * micro_batch, own.count);
    const std::uint64_t samples = std::min(input.micro_batches * micro_batch, own.count - offset);
    sum += run(make_evaluation_schedule(input), Split::validation, {own.first + offset, samples}, 0.0);
  }
  return unsigned_nan(world_.host_sum(sum) / terms(all.count));
}

template <class T, class G>
bool Trainer<T, G>::parameters_are_finite() {
  const double squares = sum_over_units([&](ShardedUnit<T, G>& unit, const Vector<double>& sums) {
    sums_of_squares<M>(exec_, unit.masters().bring(exec_), unit.chunks(), chunk_squares_, sums);
    unit.masters().dismiss();
  });
  return world_.host_max(std::isfinite(squares) ? 0 : 1) == 0;
}

template <class T, class G>
std::string Trainer<T, G>::differing_replica() {
  std::vector<std::uint64_t> sums;
  for (auto& unit : units_) {
    const Vector<M> shard = unit.masters().bring(exec_);
    std::uint64_t sum = 0;
    for (const Segment& segment : unit.segments())
      sum += fingerprint<M>(exec_, slice(shard, segment.offset, segment.offset + segment.size()),
                            segment.offset);
    unit.masters().dismiss();
    sums.push_back(sum);
  }
  // The largest of x and of ~x: they are each other's complement only where all replicas have the same.
  std::vector<std::uint64_t> largest = sums, complement = sums;
  for (auto& sum : complement) sum = ~sum;
  mesh_.replica_group->host_all_reduce(largest.data(), largest.size(), Reduction::max);
  mesh_.replica_group->host_all_reduce(complement.data(), complement.size(), Reduction::max);
  const auto units = static_cast<int>(sums.size());
  int first = units;
  for (int u = units; u-- > 0;)
    if (largest[u] != ~complement[u]) first = u;
  first = units - world_.host_max(units - first);
  return first == units ? "" : units_[first].specs().front().name;
}

#define SHARDMARK_INSTANTIATE(T, G) template class Trainer<T, G>;
SHARDMARK_FOR_PRECISIONS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
