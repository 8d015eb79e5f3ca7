// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Macros.hpp>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace shardmark {

namespace detail {
KOKKOS_FORCEINLINE_FUNCTION std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
KOKKOS_FORCEINLINE_FUNCTION float float_of(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace detail

/// [Note: Small floats] bf16 and fp16 are for storage: they turn into float by themselves, and every operator
/// is float's. Results turn back by themselves too, rounded to nearest even. Conversions choose between
/// values and do not branch, so that loops over them vectorise.

/// bfloat16: the upper half of an IEEE binary32.
struct bf16 {
  std::uint16_t bits;

  bf16() = default;  // not initialised, like a float
  template <class Number, std::enable_if_t<std::is_arithmetic_v<Number>, int> = 0>
  KOKKOS_FORCEINLINE_FUNCTION bf16(Number value) : bits(rounded(static_cast<float>(value))) {}
  template <class Number, std::enable_if_t<std::is_arithmetic_v<Number>, int> = 0>
  KOKKOS_FORCEINLINE_FUNCTION bf16& operator=(Number value) {
    bits = rounded(static_cast<float>(value));
    return *this;
  }
  KOKKOS_FORCEINLINE_FUNCTION bf16& operator+=(float value) { return *this = to_float() + value; }
  KOKKOS_FORCEINLINE_FUNCTION operator float() const { return to_float(); }

  KOKKOS_FORCEINLINE_FUNCTION static bf16 from(float value) { return bf16(value); }
  KOKKOS_FORCEINLINE_FUNCTION static bf16 from_bits(std::uint16_t bits) {
    bf16 value;
    value.bits = bits;
    return value;
  }
  KOKKOS_FORCEINLINE_FUNCTION float to_float() const {
    return detail::float_of(static_cast<std::uint32_t>(bits) << 16);
  }

 private:
  /// Rounds to nearest even; NaN stays NaN.
  KOKKOS_FORCEINLINE_FUNCTION static std::uint16_t rounded(float value) {
    const std::uint32_t b = detail::bits_of(value);
    const std::uint32_t nearest = b + 0x7fffu + ((b >> 16) & 1u);
    return static_cast<std::uint16_t>(((b & 0x7fffffffu) > 0x7f800000u ? b | 0x400000u : nearest) >> 16);
  }
};

/// IEEE 754 binary16.
struct fp16 {
  std::uint16_t bits;

  fp16() = default;  // not initialised, like a float
  template <class Number, std::enable_if_t<std::is_arithmetic_v<Number>, int> = 0>
  KOKKOS_FORCEINLINE_FUNCTION fp16(Number value) : bits(rounded(static_cast<float>(value))) {}
  template <class Number, std::enable_if_t<std::is_arithmetic_v<Number>, int> = 0>
  KOKKOS_FORCEINLINE_FUNCTION fp16& operator=(Number value) {
    bits = rounded(static_cast<float>(value));
    return *this;
  }
  KOKKOS_FORCEINLINE_FUNCTION fp16& operator+=(float value) { return *this = to_float() + value; }
  KOKKOS_FORCEINLINE_FUNCTION operator float() const { return to_float(); }

  KOKKOS_FORCEINLINE_FUNCTION static fp16 from(float value) { return fp16(value); }
  KOKKOS_FORCEINLINE_FUNCTION static fp16 from_bits(std::uint16_t bits) {
    fp16 value;
    value.bits = bits;
    return value;
  }
  KOKKOS_FORCEINLINE_FUNCTION float to_float() const {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
    const std::uint32_t exponent = magnitude & 0x0f800000u;
    const std::uint32_t small = (exponent - 1u) >> 31;             // 1 for zero and subnormals
    const std::uint32_t special = (exponent + 0x00800000u) >> 28;  // 1 for infinity and NaN
    // The small get the exponent of 2^-14, which is then taken away; the special stay so.
    const std::uint32_t shift = 0x38000000u + (small << 23) + special * 0x38000000u;
    const std::uint32_t excess = small * 0x38800000u;
    const float value = detail::float_of(magnitude + shift) - detail::float_of(excess);
    return detail::float_of((static_cast<std::uint32_t>(bits & 0x8000u) << 16) | detail::bits_of(value));
  }

 private:
  /// Rounds to nearest even, with subnormals; overflow goes to infinity, NaN stays NaN.
  KOKKOS_FORCEINLINE_FUNCTION static std::uint16_t rounded(float value) {
    const std::uint32_t b = detail::bits_of(value);
    const std::uint32_t magnitude = b & 0x7fffffffu;
    // With 2^e the power of two below x, at least 2^-14, adding 2^(e + 13) leaves x in units of 2^(e - 10).
    const std::uint32_t power = magnitude & 0x7f800000u, floor = power > 0x38800000u ? power : 0x38800000u;
    const std::uint32_t shift = floor + (13u << 23);
    const std::uint32_t units =
        detail::bits_of(detail::float_of(magnitude) + detail::float_of(shift)) - shift;
    std::uint32_t result = ((floor - 0x38800000u) >> 13) + units;
    result = magnitude >= 0x477ff000u ? 0x7c00u : result;  // rounds past 65504
    result = magnitude > 0x7f800000u ? 0x7e00u : result;
    return static_cast<std::uint16_t>(((b >> 16) & 0x8000u) | result);
  }
};

static_assert(std::is_trivially_copyable_v<bf16> && std::is_trivially_default_constructible_v<bf16>);
static_assert(std::is_trivially_copyable_v<fp16> && std::is_trivially_default_constructible_v<fp16>);
static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2);

}  // namespace shardmark
