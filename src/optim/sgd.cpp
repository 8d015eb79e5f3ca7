// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/error.hpp"
#include "core/precision.hpp"
#include "optim/kinds.hpp"

namespace shardmark {

/// One step on one segment. The scalars are computed in double, then rounded to T.
template <class T, class G>
struct SgdUpdate {
  T* parameters;
  const G* gradients;
  T* momentum;
  T gradient_scale;
  T weight_decay;
  T momentum_factor;
  T learning_rate;

  KOKKOS_INLINE_FUNCTION void operator()(std::size_t i) const {
    const T g = gradient_scale * static_cast<T>(gradients[i]) + weight_decay * parameters[i];
    const T m = momentum_factor * momentum[i] + g;
    momentum[i] = m;
    parameters[i] -= learning_rate * m;
  }
};

/// Stochastic gradient descent with heavy-ball momentum (Polyak 1964) in PyTorch's form: the momentum sums
/// gradients, and the learning rate multiplies the sum. Weight decay is added to the gradient, after
/// clipping.
template <class M, class G>
class Sgd : public Optimizer<M, G> {
 public:
  explicit Sgd(const OptimizerConfig& config) : config_(config) {}

  void step(const Exec& exec, const FlatShard<M, G>& shard, double learning_rate, double gradient_scale,
            std::uint64_t) const override {
    for (const Segment& segment : *shard.segments) {
      const SgdUpdate<M, G> update{shard.parameters.data() + segment.offset,
                                   shard.gradients.data() + segment.offset,
                                   shard.state[0].data() + segment.offset,
                                   M(gradient_scale),
                                   M(segment.decay ? config_.weight_decay : 0),
                                   M(config_.momentum),
                                   M(learning_rate)};
      Kokkos::parallel_for("shardmark::sgd::update", segment_policy(exec, segment), update);
    }
  }

 private:
  OptimizerConfig config_;
};

template <class M, class G>
std::unique_ptr<Optimizer<M, G>> make_sgd(const OptimizerConfig& config) {
  if (!(config.momentum >= 0 && config.momentum < 1))
    throw DeckError(fmt::format("optimizer.momentum = {} is not valid: 0 <= x < 1", config.momentum));
  return std::make_unique<Sgd<M, G>>(config);
}

#define SHARDMARK_INSTANTIATE(M, G) \
  template std::unique_ptr<Optimizer<M, G>> make_sgd(const OptimizerConfig&);
SHARDMARK_FOR_MASTERS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
