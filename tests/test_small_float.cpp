// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/small_float.hpp"

namespace shardmark {
namespace {

// The value nearest to x among all finite ones of the type, ties to the even pattern; found by looking at
// all.
template <class T>
std::uint16_t nearest(float x, std::uint16_t first_infinity) {
  std::uint16_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (std::uint32_t bits = 0; bits < first_infinity; ++bits) {
    const double d =
        std::abs(static_cast<double>(T{static_cast<std::uint16_t>(bits)}.to_float()) - std::abs(x));
    if (d < distance || (d == distance && bits % 2 == 0)) {
      distance = d;
      best = static_cast<std::uint16_t>(bits);
    }
  }
  return static_cast<std::uint16_t>(best | (std::signbit(x) ? 0x8000u : 0u));
}

TEST(SmallFloat, RoundsToNearestEven) {
  const float values[] = {0.0f,           -0.0f,        1.0f,    -1.5f,        3.14159265f,
                          0.1f,           -65504.0f,    1e-3f,   6e-8f,        5.9604645e-8f,
                          2.98e-8f,       8.940697e-8f, 6.1e-5f, 6.097555e-5f, 1.00048828125f,
                          1.00146484375f, 2049.0f,      2051.0f, 1.00390625f,  1.01171875f};
  for (float x : values) {
    EXPECT_EQ(fp16::from(x).bits, nearest<fp16>(x, 0x7c00)) << x;
    EXPECT_EQ(bf16::from(x).bits, nearest<bf16>(x, 0x7f80)) << x;
  }
}

TEST(SmallFloat, EveryPatternSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    const float half = fp16{b}.to_float(), brain = bf16{b}.to_float();
    if (std::isnan(half)) {
      EXPECT_TRUE(std::isnan(fp16::from(half).to_float()));
    } else {
      EXPECT_EQ(fp16::from(half).bits, b);
    }
    if (std::isnan(brain)) {
      EXPECT_TRUE(std::isnan(bf16::from(brain).to_float()));
    } else {
      EXPECT_EQ(bf16::from(brain).bits, b);
    }
  }
}

TEST(SmallFloat, KnownValues) {
  EXPECT_EQ(fp16::from(65520.0f).bits, 0x7c00);  // halfway past the largest: infinity
  EXPECT_EQ(fp16::from(65519.0f).bits, 0x7bff);
  EXPECT_EQ(fp16{0x3555}.to_float(), 0.333251953125f);
  EXPECT_EQ(bf16{0x3eab}.to_float(), 0.333984375f);
  EXPECT_EQ(bf16::from(std::numeric_limits<float>::max()).bits, 0x7f80);
}

}  // namespace
}  // namespace shardmark
