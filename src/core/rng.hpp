// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace shardmark {

/// [Note: Random numbers] Every random number is a pure function of a key and a counter, so it does not
/// depend on ranks, order or device. Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random
/// numbers: as easy as 1, 2, 3", SC 2011.
struct Philox {
  std::uint32_t word[4];

  /// The four words for a 64-bit key and a 128-bit counter given as two halves.
  KOKKOS_INLINE_FUNCTION Philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high = 0)
      : word{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
             static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)} {
    std::uint32_t key0 = static_cast<std::uint32_t>(key);
    std::uint32_t key1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * word[0];
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * word[2];
      const std::uint32_t next0 = static_cast<std::uint32_t>(product1 >> 32) ^ word[1] ^ key0;
      const std::uint32_t next2 = static_cast<std::uint32_t>(product0 >> 32) ^ word[3] ^ key1;
      word[1] = static_cast<std::uint32_t>(product1);
      word[3] = static_cast<std::uint32_t>(product0);
      word[0] = next0;
      word[2] = next2;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
  }

  KOKKOS_INLINE_FUNCTION std::uint64_t bits64(int half = 0) const {
    return word[2 * half] | (static_cast<std::uint64_t>(word[2 * half + 1]) << 32);
  }
  /// Uniform in (0, 1), never 0 or 1: 53 bits at the middle of their interval.
  KOKKOS_INLINE_FUNCTION double uniform(int half = 0) const {
    return (static_cast<double>(bits64(half) >> 11) + 0.5) * (1.0 / 9007199254740992.0);
  }
  /// Standard normal by Box and Muller (1958).
  KOKKOS_INLINE_FUNCTION double normal() const {
    using std::cos, std::log, std::sqrt;
    return sqrt(-2.0 * log(uniform(0))) * cos(6.283185307179586476925 * uniform(1));
  }
};

/// A key for a named stream of a run: FNV-1a of the name, mixed with the seed through Philox itself.
inline std::uint64_t stream_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return Philox(seed, hash).bits64();
}

}  // namespace shardmark
