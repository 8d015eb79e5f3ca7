// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/error.hpp"
#include "layers/gemm.hpp"

namespace shardmark {

/// Products of a 16-bit type by one of its ways while this lives; then emulated ones as at the start.
class GemmChoice {
 public:
  GemmChoice(Dtype param, const std::string& wish) : param_(param) {
    try {
      choose_gemm(param, wish);
      here_ = true;
    } catch (const DeckError&) {
    }
  }
  ~GemmChoice() {
    if (here_ && size_of(param_) == 2) choose_gemm(param_, "emulated");
  }
  GemmChoice(const GemmChoice&) = delete;
  GemmChoice& operator=(const GemmChoice&) = delete;
  bool here() const { return here_; }

 private:
  Dtype param_;
  bool here_ = false;
};

}  // namespace shardmark
