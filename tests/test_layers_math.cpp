// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/math.hpp"
#include "layers/strips.hpp"

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

#ifdef SHARDMARK_HAS_STRIPS

TEST(Strips, ExpIsWithinTwoUnitsAndZeroWhereItWouldBeSubnormal) {
  double worst = 0;
  for (float x = -87.29f; x < 88; x += 16 * 0.00037f) {
    strips::Lanes arguments;
    for (std::size_t i = 0; i < strips::lanes; ++i) arguments[i] = x + static_cast<float>(i) * 0.00037f;
    const strips::Lanes results = strips::exp(arguments);
    for (std::size_t i = 0; i < strips::lanes; ++i) {
      const double exact = std::exp(static_cast<double>(arguments[i]));
      const float rounded = static_cast<float>(exact);
      const double unit = std::nextafter(rounded, std::numeric_limits<float>::infinity()) - rounded;
      worst = std::max(worst, std::abs(results[i] - exact) / unit);
    }
  }
  EXPECT_LT(worst, 2);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const strips::Lanes far = {
      0, -87.31f, -88, -104, -1e30f, -infinity, std::numeric_limits<float>::quiet_NaN()};
  const strips::Lanes results = strips::exp(far);
  EXPECT_EQ(results[0], 1);
  for (std::size_t i = 1; i < 6; ++i) EXPECT_EQ(results[i], 0) << far[i];
  EXPECT_TRUE(std::isnan(results[6]));
}

// Every strip, every part, beside sums in double. What a part leaves out must not be touched or read.
TEST(Strips, ProductsAreThoseOfTheDefinition) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const auto value = [](std::size_t i) { return static_cast<float>(i * 7919 % 257) / 128 - 1; };
  for (std::size_t m : {1, 5, 6, 19, 64}) {
    for (std::size_t n : {1, 15, 16, 47, 64, 70, 130}) {
      for (std::size_t k : {1, 6, 33, 64}) {
        for (const auto part : {strips::Part::all, strips::Part::terms_to, strips::Part::terms_from}) {
          for (const bool transposed : {false, true}) {
            std::vector<float> a(m * k), b(k * n), c(m * n), c0(m * n);
            const std::size_t row = transposed ? 1 : k, step = transposed ? m : 1;
            const auto wanted = [&](std::size_t i, std::size_t l) {
              return part == strips::Part::all || (part == strips::Part::terms_to ? l <= i : l >= i);
            };
            for (std::size_t i = 0; i < m; ++i)
              for (std::size_t l = 0; l < k; ++l) a[i * row + l * step] = wanted(i, l) ? value(i * k + l) : 0;
            for (std::size_t i = 0; i < b.size(); ++i) b[i] = value(i + 1000);
            for (std::size_t i = 0; i < c.size(); ++i) c[i] = c0[i] = value(i + 2000);
            strips::multiply({m, n, k, 0.5f, a.data(), row, step, b.data(), n, 2, c.data(), n}, part);
            for (std::size_t i = 0; i < m; ++i) {
              for (std::size_t j = 0; j < n; ++j) {
                double sum = 2 * c0[i * n + j];
                for (std::size_t l = 0; l < k; ++l) sum += 0.5 * a[i * row + l * step] * b[l * n + j];
                ASSERT_NEAR(c[i * n + j], sum, 1e-5) << m << " " << n << " " << k << " at " << i << " " << j;
              }
            }
            std::fill(c.begin(), c.end(), nan);
            strips::multiply({m, n, k, 1, a.data(), row, step, b.data(), n, 0, c.data(), n}, part);
            for (const float x : c) ASSERT_FALSE(std::isnan(x));
          }
        }
      }
    }
  }
}

TEST(Strips, ColumnsFromTheRowsOwnOn) {
  constexpr std::size_t n = 64;
  const std::vector<float> a(n * 2, 1), b(2 * n, 1);
  std::vector<float> c(n * n, -7);
  strips::multiply({n, n, 2, 1, a.data(), 2, 1, b.data(), n, 0, c.data(), n}, strips::Part::columns_from);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j) ASSERT_EQ(c[i * n + j], 2);
    for (std::size_t j = 0; j + 21 < i; ++j) ASSERT_EQ(c[i * n + j], -7) << i << " " << j;
  }
}

TEST(Strips, TransposesAndPadsWithZeros) {
  for (std::size_t rows : {1, 15, 16, 33, 64}) {
    for (std::size_t columns : {1, 16, 20, 64}) {
      std::vector<float> from(rows * (columns + 3)), to(columns * strips::panel, -1);
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
      strips::transpose(rows, columns, from.data(), columns + 3, 2, to.data());
      const std::size_t padded = (rows + strips::lanes - 1) / strips::lanes * strips::lanes;
      for (std::size_t j = 0; j < columns; ++j)
        for (std::size_t i = 0; i < padded; ++i)
          ASSERT_EQ(to[j * strips::panel + i], i < rows ? 2 * from[i * (columns + 3) + j] : 0);
    }
  }
}

#endif

}  // namespace
}  // namespace shardmark
