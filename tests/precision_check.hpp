// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/precision.hpp"

namespace shardmark {

/// Half the distance from 1 to the next value.
template <class T>
inline constexpr double unit_roundoff = 0x1p-24;
template <>
inline constexpr double unit_roundoff<double> = 0x1p-53;
template <>
inline constexpr double unit_roundoff<bf16> = 0x1p-8;
template <>
inline constexpr double unit_roundoff<fp16> = 0x1p-11;

/// How far rounding a number near `value` to T can move it; fp16 has subnormals of 2^-24 where others have
/// none that matter.
template <class T>
double rounding(double value) {
  return 1.01 * unit_roundoff<T> * std::abs(value) + (std::is_same_v<T, fp16> ? 0x1p-25 : 0);
}

/// Each element of `actual` within one rounding to T of `exact`, and `slack` times the largest of `exact`.
template <class T>
void expect_rounded(const std::string& what, const std::vector<T>& actual, const std::vector<double>& exact,
                    double slack) {
  double largest = 0;
  for (const double value : exact) largest = std::max(largest, std::abs(value));
  ASSERT_EQ(actual.size(), exact.size()) << what;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    ASSERT_LE(std::abs(static_cast<double>(actual[i]) - exact[i]), rounding<T>(exact[i]) + slack * largest)
        << what << " " << i << ": " << static_cast<double>(actual[i]) << " for " << exact[i];
  }
}

}  // namespace shardmark
