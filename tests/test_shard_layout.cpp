// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/shard_layout.hpp"

namespace shardmark {
namespace {

const std::vector<Parameter> parameters = {
    {"a", {3, 50}, {}, true}, {"b", {7}, {}, false}, {"c", {1, 64}, {}, true}, {"d", {65}, {}, false}};

TEST(ShardLayout, OffsetsAndTotalsAreAligned) {
  const UnitLayout one = make_unit_layout(parameters, 1);
  EXPECT_EQ(one.offsets, (std::vector<std::size_t>{0, 192, 256, 320}));
  EXPECT_EQ(one.elements, 150u + 7 + 64 + 65);
  EXPECT_EQ(one.total, 448u);
  const UnitLayout three = make_unit_layout(parameters, 3);
  EXPECT_EQ(three.total, 576u);
  EXPECT_EQ(three.slice, 192u);
}

// Every element lies in exactly one segment, at the place that its offset in the flat buffer says.
TEST(ShardLayout, SegmentsCoverEveryElementOnce) {
  for (std::size_t shards : {1, 2, 3, 4, 5, 7, 8, 100}) {
    const UnitLayout layout = make_unit_layout(parameters, shards);
    ASSERT_EQ(layout.total, layout.slice * shards);
    std::vector<std::vector<int>> seen;
    for (const Parameter& parameter : parameters) seen.emplace_back(parameter.size(), 0);
    std::size_t empty = 0;
    for (std::size_t shard = 0; shard < shards; ++shard) {
      const auto segments = make_segments(parameters, layout, shard);
      empty += segments.empty();
      for (const Segment& segment : segments) {
        EXPECT_EQ(layout.offsets[segment.parameter] + segment.begin, shard * layout.slice + segment.offset);
        EXPECT_LE(segment.offset + segment.size(), layout.slice);
        EXPECT_EQ(segment.decay, parameters[segment.parameter].decay);
        for (std::size_t i = segment.begin; i < segment.end; ++i) ++seen[segment.parameter][i];
      }
    }
    for (const auto& elements : seen)
      for (int times : elements) EXPECT_EQ(times, 1) << shards << " shards";
    if (shards == 100) {
      EXPECT_GT(empty, 0u) << "more ranks than there is data";
    }
  }
}

}  // namespace
}  // namespace shardmark
