// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/preflight.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.hpp"

namespace shardmark {

Deck DeckSource::with(const std::vector<std::string>& more) const {
  Deck deck(text, path);
  for (const auto* list : {&overrides, &more})
    for (const std::string& assignment : *list) deck.set(assignment);
  return deck;
}

DeckSource read_deck(const Communicator& world, const std::string& path,
                     const std::vector<std::string>& overrides) {
  std::string text;
  world.agree([&] {
    if (world.rank() != 0) return;
    if (!std::filesystem::is_regular_file(path)) throw DeckError(path + ": no such deck, or not a file");
    std::ifstream file(path);
    std::stringstream content;
    content << file.rdbuf();
    if (!file) throw DeckError(path + ": no such deck, or not readable");
    text = content.str();
  });
  return {path, world.host_broadcast(text, 0), overrides};
}

std::string shortage_of_memory(const Communicator& world, const MemoryBytes& predicted) {
  std::string shortage;
  const auto compare = [&](const char* where, std::uint64_t a_rank, std::uint64_t available) {
    const auto ranks = static_cast<std::uint64_t>(world.ranks_on_node());
    const bool fits = available == 0 || a_rank <= available / ranks;
    const int speaker = world.host_max(fits ? 0 : world.size() - world.rank());
    if (speaker == 0 || !shortage.empty()) return;
    const std::string text = fmt::format(
        "this run takes {:.2f} GB of {} a rank, {:.2f} GB for the {} ranks of a node, and {:.2f} "
        "GB are free there: shard over more ranks, or make model, train.micro_batch or "
        "parallel.prefetch smaller",
        a_rank / 1e9, where, a_rank * ranks / 1e9, ranks, available / 1e9);
    shortage = world.host_broadcast(text, world.size() - speaker);
  };
  const std::uint64_t home = predicted[static_cast<std::size_t>(MemoryClass::offloaded)] +
                             predicted[static_cast<std::size_t>(MemoryClass::checkpoint)];
  if constexpr (exec_is_host) {
    compare("memory", sum_of(predicted), available_memory());
  } else {
    compare("device memory", sum_of(predicted) - home, available_device_memory());
    compare("host memory", home, available_memory());
  }
  return shortage;
}

void require_memory(const Communicator& world, const MemoryBytes& predicted) {
  const std::string shortage = shortage_of_memory(world, predicted);
  if (!shortage.empty()) throw Error(ExitCode::environment, shortage, true);
}

void require_same_data(const Communicator& world, std::uint64_t fingerprint) {
  const std::string own = std::to_string(fingerprint);
  const bool same = world.host_broadcast(own, 0) == own;
  world.agree([&] {
    if (!same)
      throw EnvironmentError(fmt::format(
          "rank {} sees other data than rank 0: data.path must hold the same on all nodes", world.rank()));
  });
}

}  // namespace shardmark
