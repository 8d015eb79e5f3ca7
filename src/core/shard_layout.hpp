// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/parameter.hpp"

namespace shardmark {

/// Offsets inside a unit's flat buffer are multiples of this many elements, whatever the dtype.
inline constexpr std::size_t layout_alignment = 64;

/// Where the parameters of one unit lie in its flat buffer. Integers only.
struct UnitLayout {
  std::vector<std::size_t> offsets;  ///< first element of each parameter
  std::size_t elements = 0;          ///< sum of the parameters' sizes, without padding
  std::size_t total = 0;  ///< length of the flat buffer: a multiple of layout_alignment x shard size
  std::size_t slice = 0;  ///< total / shard size: the length that each rank owns
};

/// A run of elements of one parameter inside one rank's slice. Segments cover the slice without padding.
struct Segment {
  std::size_t parameter;  ///< index in the unit
  std::size_t begin;      ///< first element, counted in the parameter
  std::size_t end;        ///< one past the last
  std::size_t offset;     ///< of element `begin` in the slice
  bool decay;             ///< weight decay applies

  std::size_t size() const { return end - begin; }
};

/// Lays out a unit for a shard group of `shard_size` ranks (at least 1).
UnitLayout make_unit_layout(const std::vector<Parameter>& parameters, std::size_t shard_size);

/// The ranges [begin, end) of the flat buffer that belong to no parameter.
std::vector<std::pair<std::size_t, std::size_t>> padding_of(const std::vector<Parameter>& parameters,
                                                            const UnitLayout& layout);

/// The segments that shard `shard` owns, in the order of the flat buffer; empty where it owns padding only.
std::vector<Segment> make_segments(const std::vector<Parameter>& parameters, const UnitLayout& layout,
                                   std::size_t shard);

/// Of a shard's segments the part that replica r of R saves: every element is in that of one replica, and
/// each has at most slice / R elements, rounded up.
std::vector<Segment> part_of_replica(const std::vector<Segment>& segments, const UnitLayout& layout,
                                     std::size_t replica, std::size_t replicas);

}  // namespace shardmark
