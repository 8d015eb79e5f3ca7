// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "data/shuffle.hpp"

#include <algorithm>
#include <bit>

#include "core/rng.hpp"

namespace shardmark {

Permutation::Permutation(std::uint64_t n, std::uint64_t key)
    : n_(n), key_(key), half_bits_(std::max(1, static_cast<int>(std::bit_width(n - 1) + 1) / 2)) {}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = i >> half_bits_, right = i & mask;
    for (std::uint64_t round = 0; round < 8; ++round) {
      const std::uint64_t mixed = left ^ (Philox(key_, right, round).word[0] & mask);
      left = right;
      right = mixed;
    }
    i = (left << half_bits_) | right;
  } while (i >= n_);
  return i;
}

Permutation epoch_order(std::uint64_t seed, std::uint64_t epoch, std::uint64_t n) {
  return Permutation(n, Philox(stream_key(seed, "data/shuffle"), epoch).bits64());
}

}  // namespace shardmark
