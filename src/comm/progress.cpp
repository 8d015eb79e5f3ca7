// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/progress.hpp"

#include <sched.h>
#include <unistd.h>

#include <sstream>

namespace shardmark {

namespace {

// As text: host, threads, cores.
std::string own_cores() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::ostringstream text;
  text << host << ' ' << Exec().concurrency();
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &cores)) text << ' ' << core;
  return text.str();
}

RankCores parse_cores(const std::string& text) {
  std::istringstream words(text);
  RankCores rank;
  words >> rank.host >> rank.threads;
  for (int core; words >> core;) rank.cores.insert(core);
  return rank;
}

}  // namespace

std::vector<RankCores> gather_cores(const Communicator& world) {
  std::vector<RankCores> ranks;
  for (const std::string& text : world.host_gather(own_cores())) ranks.push_back(parse_cores(text));
  return ranks;
}

std::map<std::string, NodeCores> by_node(const std::vector<RankCores>& ranks) {
  std::map<std::string, NodeCores> nodes;
  for (const RankCores& rank : ranks) {
    NodeCores& node = nodes[rank.host];
    ++node.ranks;
    node.threads += rank.threads;
    node.cores.insert(rank.cores.begin(), rank.cores.end());
  }
  return nodes;
}

bool has_spare_cores(const std::vector<RankCores>& ranks) {
  for (const auto& [host, node] : by_node(ranks))
    if (node.cores.size() <= node.threads) return false;
  return true;
}

CommProgress resolve_progress(const std::string& wish, const Communicator& world) {
  if (wish == "wait") return CommProgress::wait;
  if (wish == "worker") {
    if (!exec_is_host)
      throw DeckError("comm.progress = \"worker\" is for builds that compute on the host; valid: auto, wait");
    return CommProgress::worker;
  }
  if (wish != "auto")
    throw DeckError("comm.progress = \"" + wish + "\" is unknown; valid: auto, wait, worker");
  if (!exec_is_host) return CommProgress::wait;
  return has_spare_cores(gather_cores(world)) ? CommProgress::worker : CommProgress::wait;
}

}  // namespace shardmark
