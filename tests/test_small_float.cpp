// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

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
    const double d = std::abs(static_cast<double>(T::from_bits(static_cast<std::uint16_t>(bits)).to_float()) -
                              std::abs(x));
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
    const float half = fp16::from_bits(b).to_float(), brain = bf16::from_bits(b).to_float();
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
  EXPECT_EQ(fp16::from_bits(0x3555).to_float(), 0.333251953125f);
  EXPECT_EQ(bf16::from_bits(0x3eab).to_float(), 0.333984375f);
  EXPECT_EQ(bf16::from(std::numeric_limits<float>::max()).bits, 0x7f80);
}

/// Floats of all signs and exponents, close to and at the middle between two values of both types; infinities
/// and NaN among them.
std::vector<float> telling_floats() {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 0x10000; upper += 3) {
    for (const std::uint32_t lower :
         {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(detail::float_of(upper << 16 | lower));
  }
  return values;
}

/// x rounded to `digits` significant binary digits with exponents from `lowest`, by the C library.
float rounded(float x, int digits, int lowest, double first_infinity) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(x), lowest) - digits + 1);
  const double nearest = std::nearbyint(x / unit) * unit;
  if (std::abs(nearest) >= first_infinity) return std::copysign(std::numeric_limits<float>::infinity(), x);
  return static_cast<float>(nearest);
}

template <class T>
void expect_vectorised_loop_rounds(int digits, int lowest, double first_infinity) {
  const std::vector<float> values = telling_floats();
  std::vector<T> small(values.size());
  std::vector<float> back(values.size());
#pragma omp simd
  for (std::size_t i = 0; i < values.size(); ++i) small[i] = values[i];
#pragma omp simd
  for (std::size_t i = 0; i < values.size(); ++i) back[i] = small[i];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float expected = rounded(values[i], digits, lowest, first_infinity);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(back[i]));
    } else {
      ASSERT_EQ(detail::bits_of(back[i]), detail::bits_of(expected)) << values[i];
    }
    ASSERT_EQ(small[i].bits, T::from(values[i]).bits) << "a loop and one conversion differ at " << values[i];
  }
}

TEST(SmallFloat, LoopsRoundLikeTheCLibrary) {
  expect_vectorised_loop_rounds<bf16>(8, -126, std::ldexp(1.0, 128));
  expect_vectorised_loop_rounds<fp16>(11, -14, 65536);
}

template <class T>
void expect_float_arithmetic() {
  T a = 1.5, b = 2;  // from double and int
  static_assert(std::is_same_v<decltype(a + b), float> && std::is_same_v<decltype(a * 2.0), double>);
  EXPECT_EQ(a * b + 1, 4.0f);
  a += 0.25f;
  EXPECT_EQ(static_cast<double>(a), 1.75);
  EXPECT_TRUE(a < b && a > 0);
  a = 257.0f;  // bf16 has 8 significant digits
  EXPECT_EQ(a, (std::is_same_v<T, bf16> ? 256.0f : 257.0f));
}

TEST(SmallFloat, ComputesInFloat) {
  expect_float_arithmetic<bf16>();
  expect_float_arithmetic<fp16>();
}

}  // namespace
}  // namespace shardmark
