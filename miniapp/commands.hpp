// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "core/error.hpp"

namespace shardmark {

/// A subcommand: adds its options to the parser and returns what to do once they are parsed.
using Command = std::function<ExitCode()>;

Command add_train(CLI::App& app);
Command add_info(CLI::App& app);
Command add_ckpt(CLI::App& app);

}  // namespace shardmark
