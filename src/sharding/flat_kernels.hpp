// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/chunks.hpp"
#include "core/parameter.hpp"
#include "core/shard_layout.hpp"
#include "core/types.hpp"

namespace shardmark {

/// Kernels over flat buffers. All run on `exec` and do not fence, but for fingerprint().

template <class T>
void fill(const Exec& exec, double value, const Vector<T>& data);

/// Zeros in the chunks, in one launch.
template <class T>
void zero(const Exec& exec, const Chunks& chunks, const Vector<T>& data);

/// Casts where the types differ: to nearest, ties to even.
template <class From, class To>
void copy(const Exec& exec, const Vector<From>& from, const Vector<To>& to);

/// to += from
template <class T>
void add(const Exec& exec, const Vector<T>& from, const Vector<T>& to);

/// The first weights of a segment: element i of the parameter is a function of (seed, name, i) alone.
template <class T>
void draw_weights(const Exec& exec, const Parameter& parameter, std::uint64_t seed, const Segment& segment,
                  const Vector<T>& out);

/// The sum of the fingerprint terms of elements [first, first + n) of a tensor; see [Note: Fingerprint].
template <class T>
std::uint64_t fingerprint(const Exec& exec, const Vector<const T>& data, std::size_t first);

}  // namespace shardmark
