// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/chunks.hpp"
#include "core/types.hpp"

namespace shardmark {

/// One rank's slice of one unit: all that an optimizer sees. Lengths are equal; the chunks of its segments
/// leave out the padding. M: master weights and optimizer state, G: gradients.
template <class M, class G = M>
struct FlatShard {
  Vector<M> parameters;
  Vector<const G> gradients;
  std::vector<Vector<M>> state;  ///< in the order of state_names()
  const Chunks* chunks;
};

/// Updates flat shards, one launch each. It keeps nothing itself: the state comes with the shard, zero before
/// the first step.
template <class M, class G = M>
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// The gradient is multiplied by gradient_scale first (clipping). `step` counts from 1.
  virtual void step(const Exec& exec, const FlatShard<M, G>& shard, double learning_rate,
                    double gradient_scale, std::uint64_t step) const = 0;
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

/// Names of the state tensors, as in the checkpoint: {"exp_avg", "exp_avg_sq"} or {"momentum"}.
std::vector<std::string> state_names(const OptimizerConfig& config);

/// Throws DeckError where the config makes no sense.
template <class M, class G = M>
std::unique_ptr<Optimizer<M, G>> make_optimizer(const OptimizerConfig& config);

}  // namespace shardmark
