// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "sharding/strategy.hpp"

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
  if (reshard != "auto") strategy.reshard_after_forward = reshard == "true";
  if (accumulate != "auto") strategy.gradients_whole = accumulate == "whole";
  config.offload = offload == "none"        ? Offload::none
                   : offload == "optimizer" ? Offload::optimizer
                                            : Offload::all;
  return config;
}

}  // namespace shardmark
