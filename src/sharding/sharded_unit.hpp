// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "core/chunks.hpp"
#include "core/precision.hpp"
#include "core/shard_layout.hpp"
#include "core/unit_tensors.hpp"
#include "sharding/shard_tensor.hpp"
#include "sharding/slot_pool.hpp"
#include "sharding/strategy.hpp"
#include "sharding/unit_groups.hpp"

namespace shardmark {

enum class ParameterState { sharded, unsharding, unsharded };
enum class GradientState { none, accumulating, reducing };

/// What a run's units have in common.
struct ShardingContext {
  Strategy strategy;
  Offload offload = Offload::none;
  bool shares_parameters = false;
  bool poison_padding = false;
  Mesh* mesh = nullptr;
};

/// Where whole parameters are: in a slot while the unit is unsharded, in memory of this rank, or in common
/// memory of its shard group.
enum class ParameterHome { slot, own, common };
inline constexpr std::array parameter_home_names = {"slots", "own memory", "common memory"};

/// Where parameters and gradients of a unit lie: `copies` tells that masters are other memory than
/// parameters.
struct Residence {
  ParameterHome parameters;
  bool gradients_whole, copies;
};
/// `shares`: shares_parameters().
Residence residence(const Strategy& strategy, Offload offload, int shard_size, bool cast, bool shares);

/// The pools that units share: one pair for the root, one for all others.
template <class T, class G>
struct UnitPools {
  std::shared_ptr<SlotPool<T>> parameters;
  std::shared_ptr<SlotPool<G>> gradients;
};

/// One unit of a model as this rank holds it: a slice of the master weights and gradients for good, whole
/// parameters and gradients for a while. Where the ranks share memory ([Note: Node back end]), parameters may
/// lie whole in common memory instead, a slice of each rank's. T: parameters, G: gradients; masters are
/// Wide<T>, and the very same memory as the parameters where those are whole and of that type. Verbs come in
/// pairs and are called in the order of [Note: Schedule]; a wrong order throws std::logic_error.
template <class T, class G>
class ShardedUnit {
 public:
  using M = Wide<T>;

  /// `area` is for offloaded masters, else null. Collective.
  ShardedUnit(const std::vector<Parameter>& parameters, const ShardingContext& context, UnitPools<T, G> pools,
              std::shared_ptr<OffloadArea<M>> area);

  /// Draws this rank's slice of the first weights: a function of seed, parameter name and element index only.
  void initialize(const Exec& exec, std::uint64_t seed);

  void start_unshard(const Exec& exec);
  void wait_unsharded(const Exec& exec);
  void reshard();

  /// Zeros the gradients, but for those that the model writes (Parameter::gradient_written) unless `all`.
  void open_gradients(const Exec& exec, bool all = true);
  void start_reduce(const Exec& exec);
  void wait_reduced(const Exec& exec);
  void start_all_reduce(const Exec& exec);
  void wait_all_reduced();

  /// Breaks a step off: waits for what is in flight and gives all buffers up. The masters are as they were.
  /// Every rank does so after the same verb.
  void abandon(const Exec& exec);

  /// Whole tensors from parameter `first` on; valid while unsharded, and while gradients are open.
  UnitTensors<const T> parameters(std::size_t first = 0) const;
  UnitTensors<G> gradients(std::size_t first = 0) const;
  /// The flat buffers behind them, padding included.
  Vector<const T> flat_parameters() const;
  Vector<const G> flat_gradients() const;

  /// This rank's slices, padding included; segments say what is not padding.
  ShardTensor<M>& masters() {
    masters_changed_ = true;  // or will be
    return *masters_;
  }
  const ShardTensor<M>& masters() const { return *masters_; }
  const Vector<G>& gradient_shard() const { return gradient_shard_; }
  const std::vector<Segment>& segments() const { return segments_; }
  const Chunks& chunks() const { return chunks_; }
  const std::vector<Parameter>& specs() const { return specs_; }
  const UnitLayout& layout() const { return layout_; }

  /// A new step: the optimizer is done with the gradients, and the next reduction replaces them.
  void forget_gradients() {
    reduced_before_ = false;
    gradient_state_ = GradientState::none;
  }

 private:
  template <class S>
  Vector<S> own_slice(const Vector<S>& whole) const {
    return slice(whole, mesh_.shard * layout_.slice, (mesh_.shard + 1) * layout_.slice);
  }

  std::vector<Parameter> specs_;
  Mesh& mesh_;
  UnitPools<T, G> pools_;
  UnitLayout layout_;
  std::vector<Segment> segments_;
  Chunks chunks_;     ///< of the segments
  Chunks unwritten_;  ///< of whole gradients, what the model does not write
  ParameterHome parameter_home_;
  bool gradients_whole_;  ///< for good
  bool poison_padding_;
  bool copies_;                  ///< masters and parameters are different memory
  bool masters_changed_ = true;  ///< since they were copied

  CommBuffer<T> parameter_memory_;  ///< the whole unit, or nothing
  CommBuffer<G> gradient_memory_;   ///< one slice, or the whole unit
  std::optional<ShardTensor<M>> masters_;
  Vector<G> gradient_shard_;
  Vector<T> whole_parameters_;
  Vector<G> whole_gradients_;

  ParameterState parameter_state_ = ParameterState::sharded;
  GradientState gradient_state_ = GradientState::none;
  bool reduced_before_ = false;
  Event arrived_;  ///< of offloaded masters, where they are gathered
  Pending gathering_, reducing_, all_reducing_;
};

/// Sizes, in elements, of the slots that units of these totals share; the ledger counts with them too. Each
/// unit has its own where all are held at once, else there are `slots` of the largest.
std::vector<std::size_t> slot_sizes(const std::vector<std::size_t>& totals, bool all_at_once, int slots);

/// The units of a model with their pools. Collective.
template <class T, class G>
std::vector<ShardedUnit<T, G>> make_sharded_units(const UnitGroups& groups, const ParallelConfig& config,
                                                  Mesh& mesh,
                                                  const std::shared_ptr<OffloadArea<Wide<T>>>& area);

}  // namespace shardmark
