// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "core/shard_layout.hpp"

#include <algorithm>

namespace shardmark {

namespace {
std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
}  // namespace

UnitLayout make_unit_layout(const std::vector<Parameter>& parameters, std::size_t shard_size) {
  UnitLayout layout;
  std::size_t end = 0;
  for (const Parameter& parameter : parameters) {
    layout.offsets.push_back(end);
    layout.elements += parameter.size();
    end = round_up(end + parameter.size(), layout_alignment);
  }
  layout.total = round_up(end, layout_alignment * shard_size);
  layout.slice = layout.total / shard_size;
  return layout;
}

std::vector<std::pair<std::size_t, std::size_t>> padding_of(const std::vector<Parameter>& parameters,
                                                            const UnitLayout& layout) {
  std::vector<std::pair<std::size_t, std::size_t>> gaps;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::size_t begin = layout.offsets[i] + parameters[i].size();
    const std::size_t end = i + 1 < parameters.size() ? layout.offsets[i + 1] : layout.total;
    if (begin < end) gaps.emplace_back(begin, end);
  }
  return gaps;
}

std::vector<Segment> make_segments(const std::vector<Parameter>& parameters, const UnitLayout& layout,
                                   std::size_t shard) {
  const std::size_t slice_begin = shard * layout.slice;
  const std::size_t slice_end = slice_begin + layout.slice;
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::size_t begin = std::max(layout.offsets[i], slice_begin);
    const std::size_t end = std::min(layout.offsets[i] + parameters[i].size(), slice_end);
    if (begin >= end) continue;
    segments.push_back(
        {i, begin - layout.offsets[i], end - layout.offsets[i], begin - slice_begin, parameters[i].decay});
  }
  return segments;
}

std::vector<Segment> part_of_replica(const std::vector<Segment>& segments, const UnitLayout& layout,
                                     std::size_t replica, std::size_t replicas) {
  const std::size_t part_begin = layout.slice * replica / replicas;
  const std::size_t part_end = layout.slice * (replica + 1) / replicas;
  std::vector<Segment> part;
  for (const Segment& segment : segments) {
    const std::size_t begin = std::max(segment.offset, part_begin);
    const std::size_t end = std::min(segment.offset + segment.size(), part_end);
    if (begin >= end) continue;
    const std::size_t first = segment.begin + (begin - segment.offset);
    part.push_back({segment.parameter, first, first + (end - begin), begin, segment.decay});
  }
  return part;
}

}  // namespace shardmark
