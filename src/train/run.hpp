// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"
#include "train/resume.hpp"

namespace shardmark {

struct RunOptions {
  std::string deck;                    ///< path of the deck
  std::vector<std::string> overrides;  ///< section.key=value
  ResumeOptions resume;
  std::string progress = "auto";        ///< "auto", "line" or "rows"
  std::optional<std::string> deadline;  ///< when to stop, as parse_deadline() reads it
  bool dry_run = false;                 ///< print what the run would take and send, and stop
};

/// `shardmark train`: reads the deck, trains, saves and reports. Collective. Returns the exit code; throws
/// Error.
ExitCode run_training(const RunOptions& options);

}  // namespace shardmark
