// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardmark {

/// [Note: Windows] A sample of a text is a window of T + 1 tokens: T inputs and, one further, T targets.
/// Windows start every T tokens, so the last target of one is the first input of the next. The validation
/// windows come after the training windows and one token later, so that the two share no token, not even that
/// one.
struct Windows {
  std::uint64_t training = 0;          ///< windows that start at tokens 0, T, 2T, …
  std::uint64_t validation = 0;        ///< windows that start at validation_begin, + T, + 2T, …
  std::uint64_t validation_begin = 0;  ///< a token
};

/// Cuts `tokens` tokens into windows of `context` = T. `validation` is the part of the windows held out: in
/// [0, 1), at least one window where it is above 0. Throws DeckError where a split would be empty.
Windows cut_windows(std::uint64_t tokens, std::size_t context, double validation);

}  // namespace shardmark
