// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// The parameters of GPT-2's units by their place in a unit.
namespace shardmark::gpt {

enum RootParameter : std::size_t { wte, wpe, ln_f_weight, ln_f_bias };
enum HeadParameter : std::size_t { lm_head };
enum BlockParameter : std::size_t {
  ln_1_weight,
  ln_1_bias,
  c_attn_weight,
  c_attn_bias,
  attn_proj_weight,
  attn_proj_bias,
  ln_2_weight,
  ln_2_bias,
  c_fc_weight,
  c_fc_bias,
  mlp_proj_weight,
  mlp_proj_bias
};

}  // namespace shardmark::gpt
