// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/error.hpp"
#include "optim/kinds.hpp"

namespace shardmark {

/// One step on one segment. The scalars are computed in double, then rounded to T.
template <class T>
struct SgdUpdate {
  T* parameters;
  const T* gradients;
  T* momentum;
  T gradient_scale;
  T weight_decay;
  T momentum_factor;
  T learning_rate;

  KOKKOS_INLINE_FUNCTION void operator()(std::size_t i) const {
    const T g = gradient_scale * gradients[i] + weight_decay * parameters[i];
    const T m = momentum_factor * momentum[i] + g;
    momentum[i] = m;
    parameters[i] -= learning_rate * m;
  }
};

/// Stochastic gradient descent with heavy-ball momentum (Polyak 1964) in PyTorch's form: the momentum sums
/// gradients, and the learning rate multiplies the sum. Weight decay is added to the gradient, after
/// clipping.
template <class T>
class Sgd : public Optimizer<T> {
 public:
  Sgd(const OptimizerConfig& config, const std::vector<std::size_t>& slices)
      : config_(config), momentum_(make_state<T>("momentum", slices)) {}

  void step(const Exec& exec, std::size_t unit, const FlatShard<T>& shard, double learning_rate,
            double gradient_scale, std::uint64_t) override {
    for (const Segment& segment : *shard.segments) {
      const SgdUpdate<T> update{shard.parameters.data() + segment.offset,
                                shard.gradients.data() + segment.offset,
                                momentum_[unit].data() + segment.offset,
                                T(gradient_scale),
                                T(segment.decay ? config_.weight_decay : 0),
                                T(config_.momentum),
                                T(learning_rate)};
      Kokkos::parallel_for("shardmark::sgd::update", segment_policy(exec, segment), update);
    }
  }

  std::vector<std::string> state_names() const override { return {"momentum"}; }
  Vector<T> state(std::size_t, std::size_t unit) const override { return momentum_[unit]; }

 private:
  OptimizerConfig config_;
  std::vector<OwnedVector<T>> momentum_;  // a unit
};

template <class T>
std::unique_ptr<Optimizer<T>> make_sgd(const OptimizerConfig& config,
                                       const std::vector<std::size_t>& slices) {
  if (!(config.momentum >= 0 && config.momentum < 1))
    throw DeckError(fmt::format("optimizer.momentum = {} is not valid: 0 <= x < 1", config.momentum));
  return std::make_unique<Sgd<T>>(config, slices);
}

template std::unique_ptr<Optimizer<float>> make_sgd(const OptimizerConfig&, const std::vector<std::size_t>&);
template std::unique_ptr<Optimizer<double>> make_sgd(const OptimizerConfig&, const std::vector<std::size_t>&);

}  // namespace shardmark
