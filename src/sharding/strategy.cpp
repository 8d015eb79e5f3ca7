// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "sharding/strategy.hpp"

#include <fmt/format.h>

#include "comm/communicator.hpp"
#include "core/deck.hpp"

namespace shardmark {

int ParallelConfig::shard_size_for(int ranks) const {
  switch (strategy.shard_group) {
    case Strategy::ShardGroup::one:
      return 1;
    case Strategy::ShardGroup::all:
      return ranks;
    default:
      return shard_size;
  }
}

ParallelConfig read_parallel_config(Deck& deck) {
  std::vector<std::string> names;
  for (const Strategy& strategy : strategies) {
    names.push_back(strategy.name);
    if (strategy.name != std::string(strategy.alias)) names.push_back(strategy.alias);
  }
  const std::string name = deck.choice("parallel.strategy", "zero3", names);
  ParallelConfig config;
  for (const Strategy& strategy : strategies)
    if (name == strategy.name || name == strategy.alias) config.strategy = strategy;
  config.shard_size = static_cast<int>(deck.integer("parallel.shard_size", 0, 0, 1 << 20));
  config.prefetch = static_cast<int>(deck.integer("parallel.prefetch", 1, 0, 1 << 10));
  config.unit_params = deck.count("parallel.unit_params", 0);
  const std::string reshard =
      deck.choice("parallel.reshard_after_forward", "auto", {"auto", "true", "false"});
  const std::string accumulate = deck.choice("parallel.accumulate", "auto", {"auto", "sharded", "whole"});
  const std::string offload = deck.choice("parallel.offload", "none", {"none", "optimizer", "all"});
  const std::string unshard = deck.choice("parallel.unshard", "auto", {"auto", "copy", "share"});
  config.check_replicas_every = deck.count("parallel.check_replicas_every", 0);
  config.poison_padding = deck.boolean("parallel.poison_padding", false);

  Strategy& strategy = config.strategy;
  if (config.shard_size != 0 && strategy.shard_group != Strategy::ShardGroup::chosen)
    deck.fail("parallel.shard_size", "is for the strategy hybrid; with " + name + " it must be 0");
  if (reshard == "true" && strategy.parameters_whole)
    deck.fail("parallel.reshard_after_forward",
              name + " keeps its parameters whole; it must be auto or false");
  if (accumulate == "sharded" && strategy.gradients_whole)
    deck.fail("parallel.accumulate", name + " keeps whole gradients; it must be auto or whole");
  if (offload == "all" && strategy.parameters_whole)
    deck.fail("parallel.offload", name + " keeps its parameters whole; it must be none or optimizer");
  if (unshard == "share" && (strategy.parameters_whole || offload == "all"))
    deck.fail("parallel.unshard",
              fmt::format("with {} parameters are not unsharded from device memory; it must be "
                          "auto or copy",
                          strategy.parameters_whole ? name : "parallel.offload = \"all\""));
  if (reshard != "auto") strategy.reshard_after_forward = reshard == "true";
  if (accumulate != "auto") strategy.gradients_whole = accumulate == "whole";
  config.offload = offload == "none"        ? Offload::none
                   : offload == "optimizer" ? Offload::optimizer
                                            : Offload::all;
  config.unshard = unshard == "auto"   ? Unshard::automatic
                   : unshard == "copy" ? Unshard::copy
                                       : Unshard::share;
  return config;
}

bool shares_parameters(const ParallelConfig& config, const Communicator& shard_group) {
  const bool possible =
      shard_group.has_common_memory() && !config.strategy.parameters_whole && config.offload != Offload::all;
  if (config.unshard == Unshard::share && !possible && shard_group.size() > 1)
    throw DeckError(
        "parallel.unshard = \"share\" needs comm.backend \"node\" and shard groups of several ranks on one "
        "node; valid here: auto, copy");
  return possible && config.unshard != Unshard::copy;
}

}  // namespace shardmark
