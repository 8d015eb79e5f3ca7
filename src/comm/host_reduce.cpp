// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/host_reduce.hpp"

#include <algorithm>
#include <cstring>

#include "core/precision.hpp"

namespace shardmark {

namespace {

/// Elements that are summed at a time where there are more than two parts: they stay in the first cache.
constexpr std::size_t block = 1024;

/// out[i] = combine(a[i], b[i]) in type W. `out` may be one of the two.
template <class W, class A, class B, class Out, class Combine>
void combine_pair(const A* a, const B* b, Out* out, std::size_t n, Combine combine) {
  _Pragma("omp simd") for (std::size_t i = 0; i < n; ++i) out[i] =
      combine(static_cast<W>(a[i]), static_cast<W>(b[i]));
}

/// Parts are read once and results written once: what lies between is in the first cache.
template <class T, class Combine>
void reduce_blocks(const std::vector<const void*>& parts, void* out, std::size_t n, Combine combine) {
  using W = Wide<T>;
  const auto part = [&](std::size_t p) { return static_cast<const T*>(parts[p]); };
  auto* result = static_cast<T*>(out);
  const std::size_t last = parts.size() - 1;
  if (last == 0) {
    if (out != parts[0]) std::memcpy(out, parts[0], n * sizeof(T));
  } else if (last == 1) {
    combine_pair<W>(part(0), part(1), result, n, combine);
  } else {
    W sum[block];
    for (std::size_t begin = 0; begin < n; begin += block) {
      const std::size_t count = std::min(block, n - begin);
      combine_pair<W>(part(0) + begin, part(1) + begin, sum, count, combine);
      for (std::size_t p = 2; p < last; ++p) combine_pair<W>(sum, part(p) + begin, sum, count, combine);
      combine_pair<W>(sum, part(last) + begin, result + begin, count, combine);
    }
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
