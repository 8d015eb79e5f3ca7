// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "core/shard_layout.hpp"
#include "core/unit_tensors.hpp"
#include "sharding/slot_pool.hpp"
#include "sharding/strategy.hpp"

namespace shardmark {

enum class ParameterState { sharded, unsharding, unsharded };
enum class GradientState { none, accumulating, reducing };

/// The pools that units share: one pair for the root, one for all others.
template <class T>
struct UnitPools {
  std::shared_ptr<SlotPool<T>> parameters, gradients;
};

/// One unit of a model as this rank holds it: a slice of the parameters and gradients for good, whole ones
/// for a while. Verbs come in pairs and are called in the order of [Note: Schedule]; a wrong order throws
/// std::logic_error.
template <class T>
class ShardedUnit {
 public:
  ShardedUnit(const std::vector<Parameter>& parameters, const Strategy& strategy, Mesh& mesh,
              UnitPools<T> pools);

  /// Draws this rank's slice of the first weights: a function of seed, parameter name and element index only.
  void initialize(const Exec& exec, std::uint64_t seed);

  void start_unshard(const Exec& exec);
  void wait_unsharded();
  void reshard();

  void open_gradients(const Exec& exec);
  void start_reduce(const Exec& exec);
  void wait_reduced(const Exec& exec);
  void start_all_reduce(const Exec& exec);
  void wait_all_reduced();

  /// Whole tensors; valid while unsharded, and while gradients are open.
  UnitTensors<const T> parameters() const;
  UnitTensors<T> gradients() const;

  /// This rank's slice, padding included; segments say what is not padding.
  const Vector<T>& parameter_shard() const { return parameter_shard_; }
  const Vector<T>& gradient_shard() const { return gradient_shard_; }
  const std::vector<Segment>& segments() const { return segments_; }
  const std::vector<Parameter>& specs() const { return specs_; }
  const UnitLayout& layout() const { return layout_; }

  /// A new step: the optimizer is done with the gradients, and the next reduction replaces them.
  void forget_gradients() {
    reduced_before_ = false;
    gradient_state_ = GradientState::none;
  }

 private:
  std::vector<Parameter> specs_;
  Mesh& mesh_;
  UnitPools<T> pools_;
  UnitLayout layout_;
  std::vector<Segment> segments_;
  bool parameters_whole_, gradients_whole_;

  CommBuffer<T> parameter_memory_, gradient_memory_;  ///< one slice, or the whole unit
  Vector<T> parameter_shard_, gradient_shard_;
  Vector<T> whole_parameters_, whole_gradients_;
  Vector<T> own_slice(const Vector<T>& whole) const;

  ParameterState parameter_state_ = ParameterState::sharded;
  GradientState gradient_state_ = GradientState::none;
  bool reduced_before_ = false;
  Pending gathering_, reducing_, all_reducing_;
};

/// The units of a model with their pools: exact buffers where all units are unsharded at once, else k + 1
/// slots of the largest unit; 1 + r gradient slots; the root has its own. Collective.
template <class T>
std::vector<ShardedUnit<T>> make_sharded_units(const std::vector<std::vector<Parameter>>& units,
                                               const std::vector<bool>& is_root, const ParallelConfig& config,
                                               Mesh& mesh);

}  // namespace shardmark
