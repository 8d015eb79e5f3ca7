// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shardmark {

/// A pseudo-random permutation of 0 … n-1, computed place by place in O(1) memory: a Feistel network (Luby
/// and Rackoff 1988) with Philox as round function permutes the smallest 4^k >= n numbers, and cycle walking
/// (Black and Rogaway 2002) restricts it to those below n. Under 4 walks of 8 rounds on average.
class Permutation {
 public:
  /// n >= 1; each key has its own permutation.
  Permutation(std::uint64_t n, std::uint64_t key);

  /// What comes at place i < n.
  std::uint64_t operator()(std::uint64_t i) const;

 private:
  std::uint64_t n_;
  std::uint64_t key_;
  int half_bits_;
};

/// The order of n samples in epoch `epoch` of the run with this seed.
Permutation epoch_order(std::uint64_t seed, std::uint64_t epoch, std::uint64_t n);

}  // namespace shardmark
