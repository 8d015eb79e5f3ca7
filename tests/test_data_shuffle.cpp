// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "data/shuffle.hpp"

namespace shardmark {
namespace {

TEST(DataShuffle, EveryPlaceOnce) {
  for (std::uint64_t n : {1, 2, 3, 5, 16, 17, 100, 1000, 4096, 4097}) {
    for (std::uint64_t epoch : {0, 1, 7}) {
      const Permutation order = epoch_order(42, epoch, n);
      std::vector<int> seen(n, 0);
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t place = order(i);
        ASSERT_LT(place, n);
        EXPECT_EQ(++seen[place], 1) << "place " << place << " of " << n << " twice";
      }
    }
  }
}

// Two unrelated permutations agree in about one place, whatever n is.
TEST(DataShuffle, EpochsAndSeedsDiffer) {
  for (std::uint64_t n : {100, 1000, 4097}) {
    const Permutation order = epoch_order(42, 0, n);
    for (const Permutation& other : {epoch_order(42, 1, n), epoch_order(43, 0, n)}) {
      std::uint64_t same = 0;
      for (std::uint64_t i = 0; i < n; ++i) same += order(i) == other(i);
      EXPECT_LT(same, 10u);
    }
  }
}

// Over epochs every place shows every sample equally often: 5 x 5 counts of about 1000 (deviation 28).
TEST(DataShuffle, EverySampleIsAsLikelyEverywhere) {
  constexpr std::uint64_t n = 5, epochs = 5000;
  std::vector<int> count(n * n, 0);
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const Permutation order = epoch_order(1, epoch, n);
    for (std::uint64_t i = 0; i < n; ++i) ++count[i * n + order(i)];
  }
  for (int times : count) EXPECT_NEAR(times, 1000, 140);
}

// Far more samples than memory would hold; the walk still ends, and neighbours part.
TEST(DataShuffle, LargeCounts) {
  constexpr std::uint64_t n = (std::uint64_t{1} << 40) + 1;
  const Permutation order = epoch_order(3, 0, n);
  double mean = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    ASSERT_LT(order(i), n);
    mean += static_cast<double>(order(i)) / static_cast<double>(n) / 10000;
  }
  EXPECT_NEAR(mean, 0.5, 0.02);  // deviation 0.003
}

}  // namespace
}  // namespace shardmark
