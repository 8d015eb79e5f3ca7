// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/host_reduce.hpp"

#include <algorithm>
#include <cstring>

#include "core/precision.hpp"

namespace shardmark {

namespace {

/// Elements that are summed at a time: they stay in the first cache.
constexpr std::size_t block = 1024;

template <class T, class Combine>
void reduce_blocks(const std::vector<const void*>& parts, void* out, std::size_t n, Combine combine) {
  Wide<T> sum[block];
  for (std::size_t begin = 0; begin < n; begin += block) {
    const std::size_t count = std::min(block, n - begin);
    const T* first = static_cast<const T*>(parts[0]) + begin;
    for (std::size_t i = 0; i < count; ++i) sum[i] = first[i];
    for (std::size_t p = 1; p < parts.size(); ++p) {
      const T* part = static_cast<const T*>(parts[p]) + begin;
      for (std::size_t i = 0; i < count; ++i) sum[i] = combine(sum[i], static_cast<Wide<T>>(part[i]));
    }
    T* result = static_cast<T*>(out) + begin;
    for (std::size_t i = 0; i < count; ++i) result[i] = sum[i];
  }
}

template <class T>
void reduce_typed(const std::vector<const void*>& parts, void* out, std::size_t n, Reduction op) {
  using W = Wide<T>;
  if (op == Reduction::sum) {
    reduce_blocks<T>(parts, out, n, [](W a, W b) { return a + b; });
  } else {
    reduce_blocks<T>(parts, out, n, [](W a, W b) { return a < b ? b : a; });
  }
}

}  // namespace

void reduce_on_host(const std::vector<const void*>& parts, void* out, std::size_t n, Dtype dtype,
                    Reduction op) {
  switch (dtype) {
    case Dtype::fp32:
      return reduce_typed<float>(parts, out, n, op);
    case Dtype::fp64:
      return reduce_typed<double>(parts, out, n, op);
    case Dtype::bf16:
      return reduce_typed<bf16>(parts, out, n, op);
    case Dtype::fp16:
      return reduce_typed<fp16>(parts, out, n, op);
    case Dtype::int32:
      return reduce_typed<std::int32_t>(parts, out, n, op);
    case Dtype::int64:
      return reduce_typed<std::int64_t>(parts, out, n, op);
    case Dtype::uint64:
      return reduce_typed<std::uint64_t>(parts, out, n, op);
  }
  throw EnvironmentError("reduction: a dtype without a sum");
}

}  // namespace shardmark
