// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/shard_layout.hpp"
#include "core/types.hpp"

namespace shardmark {

/// One rank's slice of one unit: all that an optimizer sees. Lengths are equal; segments leave out the
/// padding.
template <class T>
struct FlatShard {
  Vector<T> parameters;
  Vector<const T> gradients;
  const std::vector<Segment>* segments;
};

/// Updates flat shards, unit by unit. State is allocated once and has the layout of the shards.
template <class T>
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Updates the shard of unit `unit`. The gradient is multiplied by gradient_scale first (clipping).
  /// `step` counts from 1.
  virtual void step(const Exec& exec, std::size_t unit, const FlatShard<T>& shard, double learning_rate,
                    double gradient_scale, std::uint64_t step) = 0;

  /// Names of the state tensors, as in the checkpoint: {"exp_avg", "exp_avg_sq"} or {"momentum"}.
  virtual std::vector<std::string> state_names() const = 0;
  /// State tensor `state` of unit `unit`: as long as the shard.
  virtual Vector<T> state(std::size_t state, std::size_t unit) const = 0;
};

/// The [optimizer] section.
struct OptimizerConfig {
  std::string kind;  ///< "adamw" or "sgd"
  double lr = 0;
  double beta1 = 0, beta2 = 0, eps = 0;  ///< adamw
  double momentum = 0;                   ///< sgd
  double weight_decay = 0;               ///< decoupled (adamw); added to the gradient (sgd)
  double clip = 0;                       ///< largest global gradient norm; 0 = no clipping
};

/// `slices`: length of the rank's shard of each unit. State starts at zero.
template <class T>
std::unique_ptr<Optimizer<T>> make_optimizer(const OptimizerConfig& config,
                                             const std::vector<std::size_t>& slices);

}  // namespace shardmark
