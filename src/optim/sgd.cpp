// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/error.hpp"
#include "core/packs.hpp"
#include "core/precision.hpp"
#include "optim/kinds.hpp"

namespace shardmark {

/// One step on one element. The scalars are computed in double, then rounded to T.
template <class T>
struct SgdUpdate {
  T gradient_scale;
  T weight_decay;  ///< where it applies
  T momentum_factor;
  T learning_rate;

  KOKKOS_FORCEINLINE_FUNCTION void operator()(T& parameter, T gradient, T& momentum, T decay) const {
    const T g = gradient_scale * gradient + decay * parameter;
    const T m = momentum_factor * momentum + g;
    momentum = m;
    parameter -= learning_rate * m;
  }
};

template <class M, class G>
void update_shard(const Exec& exec, const FlatShard<M, G>& shard, const SgdUpdate<M>& update) {
  if (shard.chunks->count() == 0) return;
  const auto chunks = shard.chunks->table();
  M *parameters = shard.parameters.data(), *momentum = shard.state[0].data();
  const G* gradients = shard.gradients.data();
  Kokkos::parallel_for(
      "shardmark::sgd::update", shard.chunks->policy(exec), KOKKOS_LAMBDA(const RowMember& member) {
        const Chunk& chunk = chunks(member.league_rank());
        const std::size_t begin = chunk.offset;
        const M decay = chunk.decay ? update.weight_decay : M(0);
        row_apply(
            member, chunk.size,
            [&](std::size_t, M& p, const G& g, M& m) { update(p, static_cast<M>(g), m, decay); },
            updates(parameters + begin), reads(gradients + begin), updates(momentum + begin));
      });
}

/// Stochastic gradient descent with heavy-ball momentum (Polyak 1964) in PyTorch's form: the momentum sums
/// gradients, and the learning rate multiplies the sum. Weight decay is added to the gradient, after
/// clipping.
template <class M, class G>
class Sgd : public Optimizer<M, G> {
 public:
  explicit Sgd(const OptimizerConfig& config) : config_(config) {}

  void step(const Exec& exec, const FlatShard<M, G>& shard, double learning_rate, double gradient_scale,
            std::uint64_t) const override {
    update_shard(
        exec, shard,
        SgdUpdate<M>{M(gradient_scale), M(config_.weight_decay), M(config_.momentum), M(learning_rate)});
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
