// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/small_float.hpp"

namespace shardmark {

/// Element types of buffers that are communicated, stored or reported.
enum class Dtype { fp32, fp64, bf16, fp16, int32, int64, uint64 };

constexpr std::size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
    case Dtype::fp16:
      return 2;
    case Dtype::fp32:
    case Dtype::int32:
      return 4;
    default:
      return 8;
  }
}

constexpr const char* name_of(Dtype dtype) {
  constexpr const char* names[] = {"fp32", "fp64", "bf16", "fp16", "int32", "int64", "uint64"};
  return names[static_cast<int>(dtype)];
}

template <class T>
struct DtypeOf;
template <>
struct DtypeOf<float> {
  static constexpr Dtype value = Dtype::fp32;
};
template <>
struct DtypeOf<double> {
  static constexpr Dtype value = Dtype::fp64;
};
template <>
struct DtypeOf<bf16> {
  static constexpr Dtype value = Dtype::bf16;
};
template <>
struct DtypeOf<fp16> {
  static constexpr Dtype value = Dtype::fp16;
};
template <>
struct DtypeOf<std::int32_t> {
  static constexpr Dtype value = Dtype::int32;
};
template <>
struct DtypeOf<std::int64_t> {
  static constexpr Dtype value = Dtype::int64;
};
template <>
struct DtypeOf<std::uint64_t> {
  static constexpr Dtype value = Dtype::uint64;
};
template <class T>
inline constexpr Dtype dtype_of = DtypeOf<T>::value;

}  // namespace shardmark
