// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "core/rng.hpp"

namespace shardmark {
namespace {

// The known answers that the authors of Random123 publish (kat_vectors, philox4x32 10).
TEST(Philox, MatchesPublishedVectors) {
  struct Case {
    std::uint64_t key, low, high;
    std::uint32_t expected[4];
  };
  const Case cases[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822ull,
       0x85a308d3243f6a88ull,
       0x0370734413198a2eull,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Case& c : cases) {
    const Philox philox(c.key, c.low, c.high);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(philox.word[i], c.expected[i]) << "word " << i;
  }
}

TEST(Philox, NormalHasMeanZeroAndVarianceOne) {
  const std::uint64_t key = stream_key(1, "transformer.wte.weight");
  const int n = 1 << 18;
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < n; ++i) {
    const double x = Philox(key, i).normal();
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 4 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourth / n, 3, 4 * std::sqrt(96.0 / n));
}

TEST(StreamKey, DependsOnSeedAndName) {
  EXPECT_NE(stream_key(1, "a"), stream_key(2, "a"));
  EXPECT_NE(stream_key(1, "a"), stream_key(1, "b"));
}

}  // namespace
}  // namespace shardmark
