// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "optim/optimizer.hpp"

namespace shardmark {

// One maker a kind of optimizer, each in its own file; make_optimizer lists them.
template <class M, class G>
std::unique_ptr<Optimizer<M, G>> make_adamw(const OptimizerConfig& config);
template <class M, class G>
std::unique_ptr<Optimizer<M, G>> make_sgd(const OptimizerConfig& config);

}  // namespace shardmark
