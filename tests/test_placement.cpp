// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/placement.hpp"

#include <gtest/gtest.h>

namespace shardmark {
namespace {

bool has_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    if (text.find(part) == std::string::npos) return false;
  return true;
}

RankCores rank_on(const std::string& host, int threads, const std::set<int>& cores) {
  return {host, threads, cores};
}

TEST(Placement, MoreThreadsThanCoresIsWarnedAboutByNode) {
  const auto nodes = by_node({rank_on("a", 2, {0, 1}), rank_on("a", 2, {2, 3}), rank_on("b", 2, {0, 1}),
                              rank_on("b", 2, {0, 1}), rank_on("c", 3, {5})});
  EXPECT_EQ(nodes.at("a").cores.size(), 4u);
  const auto warnings = placement_warnings(nodes, true);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(has_parts(warnings[0],
                        {"node b: 2 ranks", "4 threads share 2 cores", "OMP_NUM_THREADS", "likewise 1 more"}))
      << warnings[0];
}

TEST(Placement, UnchosenThreadsAreWarnedAboutWhereRanksShareANode) {
  const auto shared = by_node({rank_on("a", 1, {0, 1}), rank_on("a", 1, {0, 1})});
  EXPECT_TRUE(placement_warnings(shared, true).empty());
  const auto warnings = placement_warnings(shared, false);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(has_parts(warnings[0], {"node a: 2 ranks", "OMP_NUM_THREADS is not set"})) << warnings[0];
  EXPECT_TRUE(placement_warnings(by_node({rank_on("a", 1, {0}), rank_on("b", 1, {0})}), false).empty());
}

}  // namespace
}  // namespace shardmark
