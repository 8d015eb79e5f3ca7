// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace shardmark {

/// A subcommand: adds its options to the parser and returns what to do once they are parsed.
using Command = std::function<ExitCode()>;

Command add_train(CLI::App& app);
Command add_verify(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_info(CLI::App& app);
Command add_ckpt(CLI::App& app);

/// The deck and its overrides, which most subcommands take.
inline void add_deck_options(CLI::App& app, std::string& deck, std::vector<std::string>& overrides) {
  app.add_option("deck", deck,
                 "TOML deck, for example inputs/tiny.toml; inputs/reference.toml lists every key")
      ->required();
  app.add_option("--set", overrides, "section.key=value: overrides a key of the deck; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
}

}  // namespace shardmark
