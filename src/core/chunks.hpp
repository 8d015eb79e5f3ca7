// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/kernels.hpp"
#include "core/shard_layout.hpp"

namespace shardmark {

/// A part of a segment that one team takes.
struct Chunk {
  std::size_t offset;  ///< in the flat buffer
  std::uint32_t size;
  std::uint32_t segment;
  bool decay;
};

/// [Note: Chunks] The segments of a flat buffer, cut into chunks and listed in device memory, so that a
/// kernel over all of them is one launch: RowPolicy policy(exec), of which team i has chunk i. Chunks begin
/// where packs do ([Note: Packs]), as segments begin at multiples of layout_alignment.
class Chunks {
 public:
  static constexpr std::size_t largest = 4096;  ///< elements

  explicit Chunks(const std::vector<Segment>& segments);

  std::size_t count() const { return table_.extent(0); }
  std::size_t segments() const { return first_.extent(0) - 1; }
  Vector<const Chunk> table() const { return Vector<const Chunk>(table_.data(), count()); }
  /// The first chunk of each segment, then count().
  Vector<const std::uint32_t> first() const {
    return Vector<const std::uint32_t>(first_.data(), first_.extent(0));
  }
  /// For a count above 0.
  RowPolicy policy(const Exec& exec) const { return row_policy(exec, count()); }

 private:
  OwnedVector<Chunk> table_;
  OwnedVector<std::uint32_t> first_;
};

}  // namespace shardmark
