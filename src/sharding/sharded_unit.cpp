// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "sharding/sharded_unit.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "sharding/flat_kernels.hpp"

namespace shardmark {

namespace {

/// What no layer writes of a unit's gradients, padding included.
std::vector<Segment> unwritten_gradients(const std::vector<Parameter>& parameters, const UnitLayout& layout) {
  std::vector<Segment> gaps;
  std::size_t begin = 0;
  const auto add_gap = [&](std::size_t end) {
    if (begin < end) gaps.push_back({gaps.size(), 0, end - begin, begin, false});
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].gradient_written) continue;
    add_gap(layout.offsets[i]);
    begin = layout.offsets[i] + parameters[i].size();
  }
  add_gap(layout.total);
  return gaps;
}

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("sharded unit: ") + what);
}
}  // namespace

Residence residence(const Strategy& strategy, Offload offload, int shard_size, bool cast, bool shares) {
  const bool other_memory = cast || offload == Offload::all;
  const ParameterHome home = strategy.parameters_whole || (shard_size == 1 && !other_memory)
                                 ? ParameterHome::own
                             : shares ? ParameterHome::common
                                      : ParameterHome::slot;
  return {home, strategy.gradients_whole || shard_size == 1, other_memory || home == ParameterHome::slot};
}

template <class T, class G>
ShardedUnit<T, G>::ShardedUnit(const std::vector<Parameter>& parameters, const ShardingContext& context,
                               UnitPools<T, G> pools, std::shared_ptr<OffloadArea<M>> area)
    : specs_(parameters),
      mesh_(*context.mesh),
      pools_(std::move(pools)),
      layout_(make_unit_layout(parameters, mesh_.shard_size)),
      segments_(make_segments(parameters, layout_, mesh_.shard)),
      chunks_(segments_),
      unwritten_(unwritten_gradients(parameters, layout_)),
      poison_padding_(context.poison_padding) {
  constexpr bool cast = !std::is_same_v<T, M>;
  const Residence where =
      residence(context.strategy, context.offload, mesh_.shard_size, cast, context.shares_parameters);
  parameter_home_ = where.parameters;
  gradients_whole_ = where.gradients_whole;
  copies_ = where.copies;

  Communicator& comm = *mesh_.shard_group;
  if (parameter_home_ != ParameterHome::slot) {
    const bool common = parameter_home_ == ParameterHome::common;
    parameter_memory_ = comm.allocate<T>(layout_.total, "shardmark::sharded_unit::parameters",
                                         common ? CommMemory::common : CommMemory::own);
    whole_parameters_ = parameter_memory_.view;
  }
  const char* label = cast ? "shardmark::sharded_unit::masters" : "shardmark::sharded_unit::parameters";
  if (area != nullptr) {
    masters_.emplace("shardmark::sharded_unit::offloaded_masters", layout_.slice, std::move(area));
  } else if (copies_) {
    masters_.emplace(label, layout_.slice);
  } else if constexpr (!cast) {
    masters_.emplace(own_slice(whole_parameters_));
  }
  // The replica group sums them too.
  Communicator& gradient_owner = mesh_.replicas > 1 ? *mesh_.everyone : comm;
  gradient_memory_ = gradient_owner.allocate<G>(gradients_whole_ ? layout_.total : layout_.slice,
                                                "shardmark::sharded_unit::gradients");
  if (gradients_whole_) whole_gradients_ = gradient_memory_.view;
  gradient_shard_ = gradients_whole_ ? own_slice(whole_gradients_) : gradient_memory_.view;
  // A shard group of one has no copy and no collective: its shards are the unit.
  if (mesh_.shard_size == 1 && !copies_) parameter_state_ = ParameterState::unsharded;
}

template <class T, class G>
void ShardedUnit<T, G>::initialize(const Exec& exec, std::uint64_t seed) {
  if (parameter_home_ == ParameterHome::own) fill(exec, 0.0, parameter_memory_.view);
  fill(exec, 0.0, gradient_memory_.view);
  const Vector<M> shard = masters_->bring(exec);
  fill(exec, poison_padding_ ? std::numeric_limits<double>::quiet_NaN() : 0.0, shard);
  for (const Segment& segment : segments_)
    draw_weights(exec, specs_[segment.parameter], seed, segment,
                 slice(shard, segment.offset, segment.offset + segment.size()));
  masters_->take_home(exec);
}

template <class T, class G>
void ShardedUnit<T, G>::start_unshard(const Exec& exec) {
  require(parameter_state_ == ParameterState::sharded, "unshard of a unit that is not sharded");
  if (parameter_home_ == ParameterHome::slot) whole_parameters_ = pools_.parameters->acquire(layout_.total);
  // Offloaded masters come, and are gathered, beside compute.
  const Exec& beside = masters_->arrives_on(exec);
  // In common memory the last copy is still there, and others may be reading it.
  if (copies_ && (masters_changed_ || parameter_home_ != ParameterHome::common)) {
    if constexpr (std::is_same_v<T, M>) {
      masters_->copy_to(exec, own_slice(whole_parameters_));
    } else {
      masters_->fetch(exec);
      copy(beside, masters_->device(), own_slice(whole_parameters_));
      masters_->dismiss();
    }
  }
  masters_changed_ = false;
  if (masters_->offloaded()) arrived_.record(beside);
  gathering_ = mesh_.shard_group->start_all_gather(beside, whole_parameters_);
  parameter_state_ = ParameterState::unsharding;
}

template <class T, class G>
void ShardedUnit<T, G>::wait_unsharded(const Exec& exec) {
  require(parameter_state_ == ParameterState::unsharding, "wait for an unshard that was not started");
  // Not behind all that is on its way beside, or the next unit's copy would hold this one's compute up.
  gathering_.wait_on(exec);
  arrived_.hold(exec);
  parameter_state_ = ParameterState::unsharded;
}

template <class T, class G>
void ShardedUnit<T, G>::reshard() {
  require(parameter_state_ == ParameterState::unsharded, "reshard of a unit that is not unsharded");
  if (parameter_home_ == ParameterHome::slot) pools_.parameters->release(whole_parameters_);
  parameter_state_ = ParameterState::sharded;
}

template <class T, class G>
void ShardedUnit<T, G>::open_gradients(const Exec& exec, bool all) {
  require(gradient_state_ == GradientState::none, "open gradients that are in use");
  if (!gradients_whole_) whole_gradients_ = pools_.gradients->acquire(layout_.total);
  if (all)
    fill(exec, 0.0, whole_gradients_);
  else
    zero(exec, unwritten_, whole_gradients_);
  if (poison_padding_)
    for (const auto& [begin, end] : padding_of(specs_, layout_))
      fill(exec, std::numeric_limits<double>::quiet_NaN(), slice(whole_gradients_, begin, end));
  gradient_state_ = GradientState::accumulating;
}

template <class T, class G>
void ShardedUnit<T, G>::start_reduce(const Exec& exec) {
  require(gradient_state_ == GradientState::accumulating, "reduce gradients that are not open");
  // The first micro-batch goes straight to the shard; later ones to the rank's slice of the slot, to be
  // added.
  const bool to_slot = gradients_whole_ || reduced_before_;
  const Vector<G> out = to_slot ? own_slice(whole_gradients_) : gradient_shard_;
  reducing_ = mesh_.shard_group->start_reduce_scatter(exec, whole_gradients_, out);
  gradient_state_ = GradientState::reducing;
}

template <class T, class G>
void ShardedUnit<T, G>::wait_reduced(const Exec& exec) {
  require(gradient_state_ == GradientState::reducing, "wait for a reduction that was not started");
  reducing_.wait();
  if (!gradients_whole_) {
    if (reduced_before_) add(exec, own_slice(whole_gradients_), gradient_shard_);
    pools_.gradients->release(whole_gradients_);
  }
  reduced_before_ = true;
  gradient_state_ = GradientState::none;
}

template <class T, class G>
void ShardedUnit<T, G>::start_all_reduce(const Exec& exec) {
  require(gradient_state_ != GradientState::reducing, "all-reduce before the reduce-scatter is done");
  all_reducing_ = mesh_.replica_group->start_all_reduce(exec, gradient_shard_);
  gradient_state_ = GradientState::reducing;
}

template <class T, class G>
void ShardedUnit<T, G>::wait_all_reduced() {
  all_reducing_.wait();
  gradient_state_ = GradientState::none;
}

template <class T, class G>
void ShardedUnit<T, G>::abandon(const Exec& exec) {
  if (parameter_state_ == ParameterState::unsharding) wait_unsharded(exec);
  const bool always_unsharded = mesh_.shard_size == 1 && !copies_;
  if (parameter_state_ == ParameterState::unsharded && !always_unsharded) reshard();
  const bool replicas_sum = all_reducing_.active();
  reducing_.wait();
  all_reducing_.wait();
  if (gradient_state_ != GradientState::none && !replicas_sum && !gradients_whole_)
    pools_.gradients->release(whole_gradients_);
  forget_gradients();
}

template <class T, class G>
UnitTensors<const T> ShardedUnit<T, G>::parameters(std::size_t first) const {
  return UnitTensors<const T>(flat_parameters().data(), specs_, layout_, first);
}

template <class T, class G>
UnitTensors<G> ShardedUnit<T, G>::gradients(std::size_t first) const {
  require(gradient_state_ == GradientState::accumulating, "use of gradients that are not open");
  return UnitTensors<G>(whole_gradients_.data(), specs_, layout_, first);
}

template <class T, class G>
Vector<const T> ShardedUnit<T, G>::flat_parameters() const {
  require(parameter_state_ == ParameterState::unsharded, "use of parameters that are not unsharded");
  return whole_parameters_;
}

template <class T, class G>
Vector<const G> ShardedUnit<T, G>::flat_gradients() const {
  require(gradient_state_ == GradientState::accumulating, "use of gradients that are not open");
  return whole_gradients_;
}

std::vector<std::size_t> slot_sizes(const std::vector<std::size_t>& totals, bool all_at_once, int slots) {
  if (all_at_once || totals.empty()) return totals;
  const auto few = std::min<std::size_t>(slots, totals.size());
  return std::vector<std::size_t>(few, *std::max_element(totals.begin(), totals.end()));
}

template <class T, class G>
std::vector<ShardedUnit<T, G>> make_sharded_units(const UnitGroups& groups, const ParallelConfig& config,
                                                  Mesh& mesh,
                                                  const std::shared_ptr<OffloadArea<Wide<T>>>& area) {
  const Strategy& strategy = config.strategy;
  const bool cast = !std::is_same_v<T, Wide<T>>, shares = shares_parameters(config, *mesh.shard_group);
  const Residence where = residence(strategy, config.offload, mesh.shard_size, cast, shares);
  std::vector<std::size_t> root_sizes, other_sizes;
  for (std::size_t i = 0; i < groups.parameters.size(); ++i)
    (groups.is_root[i] ? root_sizes : other_sizes)
        .push_back(make_unit_layout(groups.parameters[i], mesh.shard_size).total);

  const auto pools = [&](const std::vector<std::size_t>& sizes) {
    const std::vector<std::size_t> none;
    Communicator& comm = *mesh.shard_group;
    const auto parameters = slot_sizes(sizes, !strategy.reshard_after_forward, config.prefetch + 1);
    const auto gradients = slot_sizes(sizes, false, config.reductions_in_flight() + 1);
    const bool slots = where.parameters == ParameterHome::slot;
    return UnitPools<T, G>{std::make_shared<SlotPool<T>>(comm, slots ? parameters : none,
                                                         "shardmark::sharded_unit::unsharded_parameters"),
                           std::make_shared<SlotPool<G>>(comm, where.gradients_whole ? none : gradients,
                                                         "shardmark::sharded_unit::unsharded_gradients")};
  };
  const UnitPools<T, G> root_pools = pools(root_sizes), other_pools = pools(other_sizes);
  const ShardingContext context{strategy, config.offload, shares, config.poison_padding, &mesh};
  std::vector<ShardedUnit<T, G>> sharded;
  sharded.reserve(groups.parameters.size());
  for (std::size_t i = 0; i < groups.parameters.size(); ++i)
    sharded.emplace_back(groups.parameters[i], context, groups.is_root[i] ? root_pools : other_pools,
                         config.offload == Offload::all ? area : nullptr);
  return sharded;
}

#define SHARDMARK_INSTANTIATE(T, G)                           \
  template class ShardedUnit<T, G>;                           \
  template std::vector<ShardedUnit<T, G>> make_sharded_units( \
      const UnitGroups&, const ParallelConfig&, Mesh&, const std::shared_ptr<OffloadArea<Wide<T>>>&);
SHARDMARK_FOR_PRECISIONS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
