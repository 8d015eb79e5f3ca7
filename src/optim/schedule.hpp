// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace shardmark {

/// The [schedule] section.
struct ScheduleConfig {
  std::string kind;          ///< "constant", "linear" or "cosine": the way from lr to min_lr
  std::uint64_t warmup = 0;  ///< steps of linear warm-up
  double min_lr = 0;         ///< at the last step; not used by "constant"
};

/// The learning rate of step `step`, which counts from 1, of a run of `total_steps`. It rises in a line,
/// lr x step / warmup, to lr at step `warmup`; then it stays (constant) or falls to min_lr at the last step
/// in a line or half a cosine (Loshchilov and Hutter, "SGDR", ICLR 2017, without restarts). Later steps stay
/// at the end value. Throws DeckError for an unknown kind and for min_lr outside [0, lr].
double learning_rate(const ScheduleConfig& config, double lr, std::uint64_t step, std::uint64_t total_steps);

}  // namespace shardmark
