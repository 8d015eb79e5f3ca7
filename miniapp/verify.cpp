// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/verify.hpp"

#include <memory>

#include "commands.hpp"

namespace shardmark {

Command add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  add_deck_options(app, options->deck, options->overrides);
  return [options] { return verify(*options); };
}

}  // namespace shardmark
