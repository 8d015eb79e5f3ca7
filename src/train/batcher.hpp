// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/instances.hpp"
#include "data/dataset.hpp"
#include "model/model.hpp"

namespace shardmark {

/// A rank's share of a range of samples: the r-th of P parts, which differ by at most one.
struct SampleRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
SampleRange share_of(const SampleRange& all, int rank, int ranks);

/// Copies samples from a dataset into the device memory of one micro-batch. Buffers are made once; before
/// those on the host are filled again, the host waits until the copies before have left them.
template <class T>
class Batcher {
 public:
  Batcher(const Dataset& dataset, const SampleShape& shape, std::size_t micro_batch);

  /// Samples [first, first + count) of the split, count at most micro_batch and possibly 0. Valid until the
  /// next call.
  Batch<T> load(const Exec& exec, Split split, std::uint64_t first, std::size_t count);

 private:
  const Dataset& dataset_;
  std::size_t tokens_, features_, responses_;  ///< elements of one sample
  OwnedVector<std::int32_t> token_memory_;
  OwnedVector<T> array_memory_;
  HostMirror<std::int32_t> host_tokens_;
  HostMirror<T> host_arrays_;
  Event copied_;
  std::vector<double> sample_;
};

}  // namespace shardmark
