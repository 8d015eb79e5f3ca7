// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"

namespace shardmark {

struct VerifyOptions {
  std::string deck;                    ///< path of the deck
  std::vector<std::string> overrides;  ///< section.key=value
};

/// `shardmark verify`: does this build compute, communicate and store what it should, on this machine and at
/// this number of ranks? Prints a line a check, with PASSED or FAILED and figures. Collective. Returns
/// ExitCode::invalid where one failed; throws Error.
ExitCode verify(const VerifyOptions& options);

}  // namespace shardmark
