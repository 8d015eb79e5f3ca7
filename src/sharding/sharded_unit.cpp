// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "sharding/sharded_unit.hpp"

#include <algorithm>
#include <stdexcept>

#include "sharding/flat_kernels.hpp"

namespace shardmark {

namespace {
void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("sharded unit: ") + what);
}
}  // namespace

template <class T>
ShardedUnit<T>::ShardedUnit(const std::vector<Parameter>& parameters, const Strategy& strategy, Mesh& mesh,
                            UnitPools<T> pools)
    : specs_(parameters),
      mesh_(mesh),
      pools_(std::move(pools)),
      layout_(make_unit_layout(parameters, mesh.shard_size)),
      segments_(make_segments(parameters, layout_, mesh.shard)),
      parameters_whole_(strategy.parameters_whole || mesh.shard_size == 1),
      gradients_whole_(strategy.gradients_whole || mesh.shard_size == 1) {
  Communicator& comm = *mesh.shard_group;
  parameter_memory_ = comm.allocate<T>(parameters_whole_ ? layout_.total : layout_.slice,
                                       "shardmark::sharded_unit::parameters");
  gradient_memory_ = comm.allocate<T>(gradients_whole_ ? layout_.total : layout_.slice,
                                      "shardmark::sharded_unit::gradients");
  if (parameters_whole_) whole_parameters_ = parameter_memory_.view;
  if (gradients_whole_) whole_gradients_ = gradient_memory_.view;
  parameter_shard_ = parameters_whole_ ? own_slice(whole_parameters_) : parameter_memory_.view;
  gradient_shard_ = gradients_whole_ ? own_slice(whole_gradients_) : gradient_memory_.view;
  // A shard group of one has no copy and no collective: its shards are the unit.
  if (mesh.shard_size == 1) parameter_state_ = ParameterState::unsharded;
}

template <class T>
Vector<T> ShardedUnit<T>::own_slice(const Vector<T>& whole) const {
  return slice(whole, mesh_.shard * layout_.slice, (mesh_.shard + 1) * layout_.slice);
}

template <class T>
void ShardedUnit<T>::initialize(const Exec& exec, std::uint64_t seed) {
  fill_zero(exec, parameter_memory_.view);
  fill_zero(exec, gradient_memory_.view);
  for (const Segment& segment : segments_)
    draw_weights(exec, specs_[segment.parameter], seed, segment,
                 slice(parameter_shard_, segment.offset, segment.offset + segment.size()));
}

template <class T>
void ShardedUnit<T>::start_unshard(const Exec& exec) {
  require(parameter_state_ == ParameterState::sharded, "unshard of a unit that is not sharded");
  if (!parameters_whole_) {
    whole_parameters_ = pools_.parameters->acquire(layout_.total);
    copy(exec, parameter_shard_, own_slice(whole_parameters_));
  }
  gathering_ = mesh_.shard_group->start_all_gather(exec, whole_parameters_);
  parameter_state_ = ParameterState::unsharding;
}

template <class T>
void ShardedUnit<T>::wait_unsharded() {
  require(parameter_state_ == ParameterState::unsharding, "wait for an unshard that was not started");
  gathering_.wait();
  parameter_state_ = ParameterState::unsharded;
}

template <class T>
void ShardedUnit<T>::reshard() {
  require(parameter_state_ == ParameterState::unsharded, "reshard of a unit that is not unsharded");
  if (!parameters_whole_) pools_.parameters->release(whole_parameters_);
  parameter_state_ = ParameterState::sharded;
}

template <class T>
void ShardedUnit<T>::open_gradients(const Exec& exec) {
  require(gradient_state_ == GradientState::none, "open gradients that are in use");
  if (!gradients_whole_) whole_gradients_ = pools_.gradients->acquire(layout_.total);
  fill_zero(exec, whole_gradients_);
  gradient_state_ = GradientState::accumulating;
}

template <class T>
void ShardedUnit<T>::start_reduce(const Exec& exec) {
  require(gradient_state_ == GradientState::accumulating, "reduce gradients that are not open");
  // The first micro-batch goes straight to the shard; later ones to the rank's slice of the slot, to be
  // added.
  const bool to_slot = gradients_whole_ || reduced_before_;
  const Vector<T> out = to_slot ? own_slice(whole_gradients_) : gradient_shard_;
  reducing_ = mesh_.shard_group->start_reduce_scatter(exec, whole_gradients_, out);
  gradient_state_ = GradientState::reducing;
}

template <class T>
void ShardedUnit<T>::wait_reduced(const Exec& exec) {
  require(gradient_state_ == GradientState::reducing, "wait for a reduction that was not started");
  reducing_.wait();
  if (!gradients_whole_) {
    if (reduced_before_) add(exec, own_slice(whole_gradients_), gradient_shard_);
    pools_.gradients->release(whole_gradients_);
  }
  reduced_before_ = true;
  gradient_state_ = GradientState::none;
}

template <class T>
void ShardedUnit<T>::start_all_reduce(const Exec& exec) {
  require(gradient_state_ != GradientState::reducing, "all-reduce before the reduce-scatter is done");
  all_reducing_ = mesh_.replica_group->start_all_reduce(exec, gradient_shard_);
  gradient_state_ = GradientState::reducing;
}

template <class T>
void ShardedUnit<T>::wait_all_reduced() {
  all_reducing_.wait();
  gradient_state_ = GradientState::none;
}

template <class T>
UnitTensors<const T> ShardedUnit<T>::parameters() const {
  require(parameter_state_ == ParameterState::unsharded, "use of parameters that are not unsharded");
  return UnitTensors<const T>(whole_parameters_.data(), specs_, layout_);
}

template <class T>
UnitTensors<T> ShardedUnit<T>::gradients() const {
  require(gradient_state_ == GradientState::accumulating, "use of gradients that are not open");
  return UnitTensors<T>(whole_gradients_.data(), specs_, layout_);
}

template <class T>
std::vector<ShardedUnit<T>> make_sharded_units(const std::vector<std::vector<Parameter>>& units,
                                               const std::vector<bool>& is_root, const ParallelConfig& config,
                                               Mesh& mesh) {
  const Strategy& strategy = config.strategy;
  std::vector<std::size_t> root_sizes, other_sizes;
  for (std::size_t i = 0; i < units.size(); ++i)
    (is_root[i] ? root_sizes : other_sizes).push_back(make_unit_layout(units[i], mesh.shard_size).total);

  // A slot for each unit where all are held at once, else the few that the schedule promises to get by with.
  const auto pool = [&](const std::vector<std::size_t>& sizes, bool needed, bool all_at_once, int slots,
                        const char* label) {
    std::vector<std::size_t> capacities;
    if (needed && mesh.shard_size > 1 && !sizes.empty()) {
      const auto few = std::min<std::size_t>(slots, sizes.size());
      capacities =
          all_at_once ? sizes : std::vector<std::size_t>(few, *std::max_element(sizes.begin(), sizes.end()));
    }
    return std::make_shared<SlotPool<T>>(*mesh.shard_group, capacities, label);
  };
  const auto pools = [&](const std::vector<std::size_t>& sizes) {
    return UnitPools<T>{pool(sizes, !strategy.parameters_whole, !strategy.reshard_after_forward,
                             config.prefetch + 1, "shardmark::sharded_unit::unsharded_parameters"),
                        pool(sizes, !strategy.gradients_whole, false, config.reductions_in_flight() + 1,
                             "shardmark::sharded_unit::unsharded_gradients")};
  };
  const UnitPools<T> root_pools = pools(root_sizes), other_pools = pools(other_sizes);
  std::vector<ShardedUnit<T>> sharded;
  sharded.reserve(units.size());
  for (std::size_t i = 0; i < units.size(); ++i)
    sharded.emplace_back(units[i], strategy, mesh, is_root[i] ? root_pools : other_pools);
  return sharded;
}

#define SHARDMARK_INSTANTIATE(T)                           \
  template class ShardedUnit<T>;                           \
  template std::vector<ShardedUnit<T>> make_sharded_units( \
      const std::vector<std::vector<Parameter>>&, const std::vector<bool>&, const ParallelConfig&, Mesh&);
SHARDMARK_INSTANTIATE(float)
SHARDMARK_INSTANTIATE(double)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
