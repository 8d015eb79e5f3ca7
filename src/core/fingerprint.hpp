// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Macros.hpp>
#include <cstdint>
#include <cstring>

namespace shardmark {

/// [Note: Fingerprint] A tensor's fingerprint is the sum over its elements of mix(index, bits), modulo 2^64.
/// A sum does not depend on order or sharding, so ranks add the parts of their slices. The mix is the
/// finaliser of SplitMix64 (Steele, Lea, Flood 2014) over the index, then over index and bits.
KOKKOS_INLINE_FUNCTION std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// The term of element `index` of the flattened tensor.
template <class T>
KOKKOS_INLINE_FUNCTION std::uint64_t fingerprint_term(std::uint64_t index, T value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return mix64(mix64(index) ^ bits);
}

}  // namespace shardmark
