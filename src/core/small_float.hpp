// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Macros.hpp>
#include <cstdint>
#include <cstring>

namespace shardmark {

namespace detail {
KOKKOS_INLINE_FUNCTION std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
KOKKOS_INLINE_FUNCTION float float_of(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace detail

/// bfloat16: the upper half of an IEEE binary32. Storage only; arithmetic is done in float.
struct bf16 {
  std::uint16_t bits;

  /// Rounds to nearest even; NaN stays NaN.
  KOKKOS_INLINE_FUNCTION static bf16 from(float value) {
    const std::uint32_t b = detail::bits_of(value);
    if ((b & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((b >> 16) | 0x40u)};
    return {static_cast<std::uint16_t>((b + 0x7fffu + ((b >> 16) & 1u)) >> 16)};
  }
  KOKKOS_INLINE_FUNCTION float to_float() const {
    return detail::float_of(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE 754 binary16. Storage only; arithmetic is done in float.
struct fp16 {
  std::uint16_t bits;

  /// Rounds to nearest even, with subnormals; overflow goes to infinity, NaN stays NaN.
  KOKKOS_INLINE_FUNCTION static fp16 from(float value) {
    const std::uint32_t b = detail::bits_of(value);
    const std::uint32_t sign = (b >> 16) & 0x8000u;
    const std::uint32_t magnitude = b & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
    if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // rounds past 65504
    if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 aligns the last subnormal bit with float's
      const float aligned = detail::float_of(magnitude) + 0.5f;
      return {static_cast<std::uint16_t>(sign | (detail::bits_of(aligned) - 0x3f000000u))};
    }
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
  }
  KOKKOS_INLINE_FUNCTION float to_float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    const std::uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0x1fu) return detail::float_of(sign | 0x7f800000u | (fraction << 13));
    if (exponent == 0) {  // zero or subnormal: fraction x 2^-24
      const float magnitude = static_cast<float>(fraction) * 5.9604644775390625e-8f;
      return detail::float_of(sign | detail::bits_of(magnitude));
    }
    return detail::float_of(sign | ((exponent + 112u) << 23) | (fraction << 13));
  }
};

}  // namespace shardmark
