// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "core/deck.hpp"
#include "train/ledger.hpp"

namespace shardmark {

/// A deck as it was read, of which any number of variants can be made.
struct DeckSource {
  std::string path, text;
  std::vector<std::string> overrides;

  Deck with(const std::vector<std::string>& more) const;
};

/// Rank 0 reads the file and everyone gets it. Collective. Throws DeckError.
DeckSource read_deck(const Communicator& world, const std::string& path,
                     const std::vector<std::string>& overrides);

/// Compares what the ranks of a node are going to take with what is free there: a sentence with both figures
/// where it is not enough on any node, the same on all ranks, or nothing. Collective.
std::string shortage_of_memory(const Communicator& world, const MemoryBytes& predicted);

/// Throws EnvironmentError where there is a shortage. Collective.
void require_memory(const Communicator& world, const MemoryBytes& predicted);

/// Every rank has made its dataset: all must have the same. Collective; throws EnvironmentError.
void require_same_data(const Communicator& world, std::uint64_t fingerprint);

}  // namespace shardmark
