// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/shards.hpp"

namespace shardmark::checkpoint {

/// A checkpoint of either layout on one process, a range of a tensor at a time: its size does not matter.
class Reader {
 public:
  /// Throws EnvironmentError where the file is no checkpoint, or a rank file is missing, not whole, or
  /// another.
  explicit Reader(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Values& state() const { return state_; }
  const Values& run() const { return run_; }

  /// Elements [begin, end) of tensor t, into memory for as many.
  void read(std::size_t t, std::size_t begin, std::size_t end, void* data);
  /// Their terms in the tensor's fingerprint.
  std::uint64_t terms(std::size_t t, std::size_t begin, std::size_t end);

 private:
  const File& shard(std::uint64_t rank);

  File file_;
  std::vector<Tensor> tensors_;
  Values state_, run_;
  Index index_;
  std::map<std::uint64_t, File> shards_;  ///< the rank files that are open
  std::vector<std::byte> buffer_;
};

/// Bytes that the tools hold in memory at a time.
inline constexpr std::size_t buffer_bytes = std::size_t{16} << 20;

/// Calls f(begin, end) for parts of [begin, end) that fit into a buffer.
template <class F>
void for_buffers(Dtype dtype, std::size_t begin, std::size_t end, F f) {
  const std::size_t most = buffer_bytes / size_of(dtype);
  for (; begin < end; begin += std::min(most, end - begin)) f(begin, begin + std::min(most, end - begin));
}

}  // namespace shardmark::checkpoint
