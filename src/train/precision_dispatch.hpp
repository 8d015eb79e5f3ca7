// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

#include "core/precision.hpp"
#include "train/config.hpp"

namespace shardmark {

/// Calls f.operator()<T, G>() with the types of the config.
template <class Function>
auto with_precision(const PrecisionConfig& precision, const Function& f) {
#define SHARDMARK_TRY(T, G) \
  if (precision.param == dtype_of<T> && precision.reduce == dtype_of<G>) return f.template operator()<T, G>();
  SHARDMARK_FOR_PRECISIONS(SHARDMARK_TRY)
#undef SHARDMARK_TRY
  throw std::logic_error("precision: this pair of types is not compiled in");
}

}  // namespace shardmark
