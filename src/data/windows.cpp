// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "data/windows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace shardmark {

Windows cut_windows(std::uint64_t tokens, std::size_t context, double validation) {
  if (!(validation >= 0 && validation < 1))
    throw DeckError(
        fmt::format("data.validation = {} is not a part of the windows: valid is 0 <= x < 1", validation));
  const std::uint64_t splits = validation > 0 ? 2 : 1;
  const std::uint64_t needed = splits * (context + 1);
  if (tokens < needed)
    throw DeckError(fmt::format("data.path holds {} tokens, but {} of model.context + 1 = {} tokens needs {}",
                                tokens, splits == 2 ? "a training and a validation window" : "one window",
                                context + 1, needed));
  const std::uint64_t windows = (tokens - splits) / context;
  Windows cut;
  if (validation > 0)
    cut.validation = std::max<std::uint64_t>(1, std::llround(validation * static_cast<double>(windows)));
  if (cut.validation >= windows)
    throw DeckError(fmt::format("data.validation = {} leaves no training window of the {} in data.path",
                                validation, windows));
  cut.training = windows - cut.validation;
  cut.validation_begin = cut.training * context + 1;
  return cut;
}

}  // namespace shardmark
