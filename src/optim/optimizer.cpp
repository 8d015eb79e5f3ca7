// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/precision.hpp"
#include "optim/kinds.hpp"

namespace shardmark {
namespace {

void check(const char* key, double value, bool valid, const char* range) {
  if (!valid) throw DeckError(fmt::format("optimizer.{} = {} is not valid: {}", key, value, range));
}

}  // namespace

std::vector<std::string> state_names(const OptimizerConfig& config) {
  if (config.kind == "sgd") return {"momentum"};
  return {"exp_avg", "exp_avg_sq"};
}

template <class M, class G>
std::unique_ptr<Optimizer<M, G>> make_optimizer(const OptimizerConfig& config) {
  check("lr", config.lr, config.lr >= 0, "0 or more");
  check("weight_decay", config.weight_decay, config.weight_decay >= 0, "0 or more");
  check("clip", config.clip, config.clip >= 0, "0 (off) or more");
  if (config.kind == "adamw") return make_adamw<M, G>(config);
  if (config.kind == "sgd") return make_sgd<M, G>(config);
  throw DeckError(fmt::format("optimizer.kind = \"{}\" is unknown; valid: \"adamw\", \"sgd\"", config.kind));
}

#define SHARDMARK_INSTANTIATE(M, G) \
  template std::unique_ptr<Optimizer<M, G>> make_optimizer(const OptimizerConfig&);
SHARDMARK_FOR_MASTERS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
