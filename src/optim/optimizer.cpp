// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "optim/kinds.hpp"

namespace shardmark {
namespace {

void check(const char* key, double value, bool valid, const char* range) {
  if (!valid) throw DeckError(fmt::format("optimizer.{} = {} is not valid: {}", key, value, range));
}

}  // namespace

template <class T>
std::unique_ptr<Optimizer<T>> make_optimizer(const OptimizerConfig& config,
                                             const std::vector<std::size_t>& slices) {
  check("lr", config.lr, config.lr >= 0, "0 or more");
  check("weight_decay", config.weight_decay, config.weight_decay >= 0, "0 or more");
  check("clip", config.clip, config.clip >= 0, "0 (off) or more");
  if (config.kind == "adamw") return make_adamw<T>(config, slices);
  if (config.kind == "sgd") return make_sgd<T>(config, slices);
  throw DeckError(fmt::format("optimizer.kind = \"{}\" is unknown; valid: \"adamw\", \"sgd\"", config.kind));
}

template std::unique_ptr<Optimizer<float>> make_optimizer(const OptimizerConfig&,
                                                          const std::vector<std::size_t>&);
template std::unique_ptr<Optimizer<double>> make_optimizer(const OptimizerConfig&,
                                                           const std::vector<std::size_t>&);

}  // namespace shardmark
