// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace shardmark {

namespace {

/// "node n1: what is wrong there", and on how many others; nothing where no node is so.
template <class IsWrong, class Say>
void warn(const std::map<std::string, NodeCores>& nodes, IsWrong is_wrong, Say say,
          std::vector<std::string>& warnings) {
  std::string text;
  std::size_t others = 0;
  for (const auto& [host, node] : nodes) {
    if (!is_wrong(node)) continue;
    if (text.empty())
      text = fmt::format("node {}: {}", host, say(node));
    else
      ++others;
  }
  if (others > 0) text += fmt::format("; likewise {} more nodes", others);
  if (!text.empty()) warnings.push_back(text);
}

}  // namespace

std::vector<std::string> placement_warnings(const std::map<std::string, NodeCores>& nodes,
                                            bool threads_chosen) {
  std::vector<std::string> warnings;
  const auto crowded = [](const NodeCores& node) {
    return !node.cores.empty() && node.threads > node.cores.size();
  };
  const auto say_crowded = [](const NodeCores& node) {
    return fmt::format(
        "{} ranks x their threads = {} threads share {} cores; use fewer ranks a node, or set "
        "OMP_NUM_THREADS lower",
        node.ranks, node.threads, node.cores.size());
  };
  warn(nodes, crowded, say_crowded, warnings);
  if (threads_chosen) return warnings;
  const auto shared = [](const NodeCores& node) { return node.ranks > 1; };
  const auto say_shared = [](const NodeCores& node) {
    return fmt::format(
        "{} ranks share it and OMP_NUM_THREADS is not set: libraries may start a thread a core "
        "in each of them; set it to the cores of a rank",
        node.ranks);
  };
  warn(nodes, shared, say_shared, warnings);
  return warnings;
}

std::vector<std::string> placement_warnings(const Communicator& world) {
  const bool chosen = world.host_max(std::getenv("OMP_NUM_THREADS") == nullptr ? 1 : 0) == 0;
  return placement_warnings(by_node(gather_cores(world)), chosen);
}

}  // namespace shardmark
