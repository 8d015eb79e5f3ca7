// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Macros.hpp>
#include <cmath>
#include <cstdint>

#include "core/small_float.hpp"

/// The one home of elementary functions inside kernels, for float and double, on hosts and devices.
namespace shardmark::math {

using detail::bits_of;
using detail::float_of;
using std::log;
using std::sqrt;

KOKKOS_INLINE_FUNCTION double exp(double x) {
  using std::exp;
  return exp(x);
}

/// 2^n as a float, for n in [-126, 127]; anything for another n.
KOKKOS_INLINE_FUNCTION float power_of_two(std::int32_t n) {
  return float_of((static_cast<std::uint32_t>(n) + 127u) << 23);
}

/// x in [-104, 89], the nearest to it; anything for NaN. Floats of one sign are ordered like their bits, and
/// a minimum of integers never becomes a branch, which would run what follows twice in a vectorised loop.
KOKKOS_INLINE_FUNCTION float clamp_exponent(float x) {
  constexpr std::int32_t highest = 0x42B20000;  // 89, above all that is negative as a signed number
  constexpr std::uint32_t lowest = 0xC2D00000;  // -104, above all that is positive as an unsigned one
  const auto below = static_cast<std::int32_t>(bits_of(x));
  const auto bits = static_cast<std::uint32_t>(below < highest ? below : highest);
  return float_of(bits < lowest ? bits : lowest);
}

/// e^x without a branch, so that loops over it vectorise. Within 1 unit in the last place where the result is
/// normal; small results fade through the subnormals to 0, large ones give infinity, NaN stays NaN.
/// Reduction by Cody and Waite 1980: x = n ln 2 + r, |r| <= ln 2 / 2. Then e^r = 1 + r + r^2 q(r), with a
/// minimax polynomial q of degree 4 made for this file: relative error 5e-9.
KOKKOS_INLINE_FUNCTION float exp(float argument) {
  const float x = clamp_exponent(argument);  // 89 gives infinity, -104 gives 0
  constexpr float round = 12582912.0f;       // 1.5 x 2^23: adding it leaves an integer in the low bits
  const float shifted = x * 1.44269504f + round;
  const std::int32_t n = static_cast<std::int32_t>(bits_of(shifted)) - 0x4B400000;
  const float whole = shifted - round;
  const float r = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;  // ln 2 in two parts, the first short
  float q = 1.3814467e-3f;
  q = q * r + 8.3687808e-3f;
  q = q * r + 4.1668393e-2f;
  q = q * r + 1.66665196e-1f;
  q = q * r + 4.9999994e-1f;
  const float power = (q * r) * r + r + 1.0f;
  const std::int32_t half = n >> 1;  // 2^n in two factors: n itself may be out of the exponent's range
  const float result = power * power_of_two(half) * power_of_two(n - half);
  // All ones, which is a NaN, where the argument is one.
  const auto nan = static_cast<std::int32_t>(0x7F800000u - (bits_of(argument) & 0x7FFFFFFFu)) >> 31;
  return float_of(bits_of(result) | static_cast<std::uint32_t>(nan));
}

}  // namespace shardmark::math
