// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shardmark {

/// A factor on the loss that keeps small gradients above the smallest fp16 number (P. Micikevicius et al.,
/// "Mixed precision training", ICLR 2018): halved when a gradient overflows, doubled after `growth` steps
/// without. Fixed at 1 where growth is 0.
class LossScale {
 public:
  LossScale() = default;
  LossScale(double factor, std::uint64_t growth) : factor_(factor), growth_(growth) {}

  /// No factor in use is larger.
  static constexpr double largest = 4294967296;  // 2^32

  double factor() const { return factor_; }
  /// Steps without overflow since the factor last changed.
  std::uint64_t calm_steps() const { return calm_steps_; }
  /// Whether a smaller factor may help against an overflow.
  bool can_shrink() const { return growth_ > 0 && factor_ > 1; }

  void overflowed() {
    factor_ /= 2;
    calm_steps_ = 0;
  }
  void went_well() {
    if (growth_ == 0 || ++calm_steps_ < growth_) return;
    if (factor_ < largest) factor_ *= 2;
    calm_steps_ = 0;
  }
  void restore(double factor, std::uint64_t calm_steps) {
    if (growth_ == 0) return;
    factor_ = factor;
    calm_steps_ = calm_steps;
  }

 private:
  double factor_ = 1;
  std::uint64_t growth_ = 0, calm_steps_ = 0;
};

}  // namespace shardmark
