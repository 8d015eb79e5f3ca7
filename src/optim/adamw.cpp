// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "core/error.hpp"
#include "core/math.hpp"
#include "optim/kinds.hpp"

namespace shardmark {

/// One step on one segment. The scalars are computed in double, then rounded to T.
template <class T>
struct AdamwUpdate {
  T* parameters;
  const T* gradients;
  T* exp_avg;
  T* exp_avg_sq;
  T gradient_scale;
  T beta1, rest1;  ///< rest = 1 - beta
  T beta2, rest2;
  T eps;
  T root_correction2;  ///< sqrt(1 - beta2^t)
  T step_size;         ///< lr / (1 - beta1^t)
  T keep;              ///< 1 - lr x weight decay, or 1

  KOKKOS_INLINE_FUNCTION void operator()(std::size_t i) const {
    const T g = gradient_scale * gradients[i];
    const T m = beta1 * exp_avg[i] + rest1 * g;
    const T v = beta2 * exp_avg_sq[i] + rest2 * (g * g);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    parameters[i] = keep * parameters[i] - step_size * (m / (math::sqrt(v) / root_correction2 + eps));
  }
};

/// Adam with decoupled weight decay: I. Loshchilov and F. Hutter, "Decoupled weight decay regularization",
/// ICLR 2019, with the decay times the learning rate as PyTorch has it.
template <class T>
class Adamw : public Optimizer<T> {
 public:
  Adamw(const OptimizerConfig& config, const std::vector<std::size_t>& slices)
      : config_(config),
        exp_avg_(make_state<T>("exp_avg", slices)),
        exp_avg_sq_(make_state<T>("exp_avg_sq", slices)) {}

  void step(const Exec& exec, std::size_t unit, const FlatShard<T>& shard, double learning_rate,
            double gradient_scale, std::uint64_t step) override {
    const double beta1 = config_.beta1, beta2 = config_.beta2;
    const double correction1 = 1 - std::pow(beta1, static_cast<double>(step));
    const double correction2 = 1 - std::pow(beta2, static_cast<double>(step));
    for (const Segment& segment : *shard.segments) {
      const double decay = segment.decay ? learning_rate * config_.weight_decay : 0;
      const AdamwUpdate<T> update{shard.parameters.data() + segment.offset,
                                  shard.gradients.data() + segment.offset,
                                  exp_avg_[unit].data() + segment.offset,
                                  exp_avg_sq_[unit].data() + segment.offset,
                                  T(gradient_scale),
                                  T(beta1),
                                  T(1 - beta1),
                                  T(beta2),
                                  T(1 - beta2),
                                  T(config_.eps),
                                  T(std::sqrt(correction2)),
                                  T(learning_rate / correction1),
                                  T(1 - decay)};
      Kokkos::parallel_for("shardmark::adamw::update", segment_policy(exec, segment), update);
    }
  }

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  Vector<T> state(std::size_t state, std::size_t unit) const override {
    return (state == 0 ? exp_avg_ : exp_avg_sq_)[unit];
  }

 private:
  OptimizerConfig config_;
  std::vector<OwnedVector<T>> exp_avg_, exp_avg_sq_;  // a unit
};

template <class T>
std::unique_ptr<Optimizer<T>> make_adamw(const OptimizerConfig& config,
                                         const std::vector<std::size_t>& slices) {
  for (double beta : {config.beta1, config.beta2})
    if (!(beta >= 0 && beta < 1))
      throw DeckError(fmt::format("optimizer.betas = [{}, {}] is not valid: two numbers, 0 <= x < 1",
                                  config.beta1, config.beta2));
  if (!(config.eps > 0)) throw DeckError(fmt::format("optimizer.eps = {} is not valid: above 0", config.eps));
  return std::make_unique<Adamw<T>>(config, slices);
}

template std::unique_ptr<Optimizer<float>> make_adamw(const OptimizerConfig&,
                                                      const std::vector<std::size_t>&);
template std::unique_ptr<Optimizer<double>> make_adamw(const OptimizerConfig&,
                                                       const std::vector<std::size_t>&);

}  // namespace shardmark
