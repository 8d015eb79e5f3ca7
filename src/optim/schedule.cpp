// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.hpp"

namespace shardmark {
namespace {

/// The part of the way from lr to min_lr that is left, from 1 to 0, after part x of the steps.
struct Decay {
  const char* kind;
  double (*left)(double x);
};
constexpr Decay decays[] = {{"constant", [](double) { return 1.0; }},
                            {"linear", [](double x) { return 1 - x; }},
                            {"cosine", [](double x) { return 0.5 * (1 + std::cos(std::numbers::pi * x)); }}};

}  // namespace

double learning_rate(const ScheduleConfig& config, double lr, std::uint64_t step, std::uint64_t total_steps) {
  const auto decay = std::find_if(std::begin(decays), std::end(decays),
                                  [&](const Decay& candidate) { return config.kind == candidate.kind; });
  if (decay == std::end(decays))
    throw DeckError(fmt::format(
        "schedule.kind = \"{}\" is unknown; valid: \"constant\", \"linear\", \"cosine\"", config.kind));
  if (!(config.min_lr >= 0 && config.min_lr <= lr))
    throw DeckError(
        fmt::format("schedule.min_lr = {} is not valid: 0 up to optimizer.lr = {}", config.min_lr, lr));
  if (step < config.warmup) return lr * static_cast<double>(step) / static_cast<double>(config.warmup);
  const double done = static_cast<double>(step - config.warmup);
  const double steps = static_cast<double>(std::max(total_steps, config.warmup + 1) - config.warmup);
  return config.min_lr + (lr - config.min_lr) * decay->left(std::min(1.0, done / steps));
}

}  // namespace shardmark
