// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/math.hpp"

namespace shardmark {
namespace {

TEST(Exp, FloatIsWithinOneAndAHalfUnitsInTheLastPlace) {
  double worst = 0;
  for (float x = -87.3f; x < 88.7f; x += 0.00037f) {
    const double exact = std::exp(static_cast<double>(x));
    const float rounded = static_cast<float>(exact);
    const double unit = std::nextafter(rounded, std::numeric_limits<float>::infinity()) - rounded;
    worst = std::max(worst, std::abs(math::exp(x) - exact) / unit);
  }
  EXPECT_LT(worst, 1.5);
}

TEST(Exp, FloatFadesToZeroGoesToInfinityAndKeepsNan) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(math::exp(0.0f), 1.0f);
  EXPECT_EQ(math::exp(-0.0f), 1.0f);
  EXPECT_EQ(math::exp(88.8f), infinity);
  EXPECT_EQ(math::exp(1e30f), infinity);
  EXPECT_EQ(math::exp(infinity), infinity);
  EXPECT_NEAR(math::exp(-95.0f), std::exp(-95.0), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(math::exp(-104.5f), 0.0f);
  EXPECT_EQ(math::exp(-1e30f), 0.0f);
  EXPECT_EQ(math::exp(-infinity), 0.0f);
  EXPECT_TRUE(std::isnan(math::exp(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace shardmark
