// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "core/error.hpp"
#include "core/math.hpp"
#include "core/packs.hpp"
#include "core/precision.hpp"
#include "optim/kinds.hpp"

namespace shardmark {

/// One step on one element. The scalars are computed in double, then rounded to T.
template <class T>
struct AdamwUpdate {
  T gradient_scale;
  T beta1, rest1;  ///< rest = 1 - beta
  T beta2, rest2;
  T eps;
  T root_correction2;  ///< sqrt(1 - beta2^t)
  T step_size;         ///< lr / (1 - beta1^t)
  T keep;              ///< 1 - lr x weight decay where it applies

  KOKKOS_FORCEINLINE_FUNCTION void operator()(T& parameter, T gradient, T& exp_avg, T& exp_avg_sq,
                                              T kept) const {
    const T g = gradient_scale * gradient;
    const T m = beta1 * exp_avg + rest1 * g;
    const T v = beta2 * exp_avg_sq + rest2 * (g * g);
    exp_avg = m;
    exp_avg_sq = v;
    parameter = kept * parameter - step_size * (m / (math::sqrt(v) / root_correction2 + eps));
  }
};

template <class M, class G>
void update_shard(const Exec& exec, const FlatShard<M, G>& shard, const AdamwUpdate<M>& update) {
  if (shard.chunks->count() == 0) return;
  const auto chunks = shard.chunks->table();
  M *parameters = shard.parameters.data(), *exp_avg = shard.state[0].data(),
    *exp_avg_sq = shard.state[1].data();
  const G* gradients = shard.gradients.data();
  Kokkos::parallel_for(
      "shardmark::adamw::update", shard.chunks->policy(exec), KOKKOS_LAMBDA(const RowMember& member) {
        const Chunk& chunk = chunks(member.league_rank());
        const std::size_t begin = chunk.offset;
        const M kept = chunk.decay ? update.keep : M(1);
        row_apply(
            member, chunk.size,
            [&](std::size_t, M& p, const G& g, M& m, M& v) { update(p, static_cast<M>(g), m, v, kept); },
            updates(parameters + begin), reads(gradients + begin), updates(exp_avg + begin),
            updates(exp_avg_sq + begin));
      });
}

/// Adam with decoupled weight decay: I. Loshchilov and F. Hutter, "Decoupled weight decay regularization",
/// ICLR 2019, with the decay times the learning rate as PyTorch has it.
template <class M, class G>
class Adamw : public Optimizer<M, G> {
 public:
  explicit Adamw(const OptimizerConfig& config) : config_(config) {}

  void step(const Exec& exec, const FlatShard<M, G>& shard, double learning_rate, double gradient_scale,
            std::uint64_t step) const override {
    const double beta1 = config_.beta1, beta2 = config_.beta2;
    const double correction1 = 1 - std::pow(beta1, static_cast<double>(step));
    const double correction2 = 1 - std::pow(beta2, static_cast<double>(step));
    update_shard(exec, shard,
                 AdamwUpdate<M>{M(gradient_scale), M(beta1), M(1 - beta1), M(beta2), M(1 - beta2),
                                M(config_.eps), M(std::sqrt(correction2)), M(learning_rate / correction1),
                                M(1 - learning_rate * config_.weight_decay)});
  }

 private:
  OptimizerConfig config_;
};

template <class M, class G>
std::unique_ptr<Optimizer<M, G>> make_adamw(const OptimizerConfig& config) {
  for (double beta : {config.beta1, config.beta2})
    if (!(beta >= 0 && beta < 1))
      throw DeckError(fmt::format("optimizer.betas = [{}, {}] is not valid: two numbers, 0 <= x < 1",
                                  config.beta1, config.beta2));
  if (!(config.eps > 0)) throw DeckError(fmt::format("optimizer.eps = {} is not valid: above 0", config.eps));
  return std::make_unique<Adamw<M, G>>(config);
}

#define SHARDMARK_INSTANTIATE(M, G) \
  template std::unique_ptr<Optimizer<M, G>> make_adamw(const OptimizerConfig&);
SHARDMARK_FOR_MASTERS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
