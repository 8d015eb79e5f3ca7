// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "core/chunks.hpp"

#include <algorithm>
#include <string>

namespace shardmark {

namespace {

template <class T>
OwnedVector<T> on_device(const std::string& label, const std::vector<T>& values) {
  const auto vector = allocate<T>(label, values.size());
  const auto mirror = mirror_of(vector);
  std::copy(values.begin(), values.end(), mirror.data());
  Kokkos::deep_copy(vector, mirror);
  return vector;
}

std::vector<Chunk> cut(const std::vector<Segment>& segments) {
  std::vector<Chunk> chunks;
  for (std::size_t s = 0; s < segments.size(); ++s)
    for (std::size_t begin = 0; begin < segments[s].size(); begin += Chunks::largest)
      chunks.push_back({segments[s].offset + begin,
                        static_cast<std::uint32_t>(std::min(Chunks::largest, segments[s].size() - begin)),
                        static_cast<std::uint32_t>(s), segments[s].decay});
  return chunks;
}

std::vector<std::uint32_t> firsts(const std::vector<Segment>& segments) {
  std::vector<std::uint32_t> first = {0};
  for (const Segment& segment : segments)
    first.push_back(first.back() +
                    static_cast<std::uint32_t>((segment.size() + Chunks::largest - 1) / Chunks::largest));
  return first;
}

}  // namespace

Chunks::Chunks(const std::vector<Segment>& segments)
    : table_(on_device("shardmark::chunks::table", cut(segments))),
      first_(on_device("shardmark::chunks::first", firsts(segments))) {}

}  // namespace shardmark
