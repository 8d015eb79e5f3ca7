// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/progress.hpp"

#include <sched.h>
#include <unistd.h>

#include <map>
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

bool has_spare_cores(const std::vector<RankCores>& ranks) {
  struct Node {
    std::size_t threads = 0;
    std::set<int> cores;
  };
  std::map<std::string, Node> nodes;
  for (const RankCores& rank : ranks) {
    Node& node = nodes[rank.host];
    node.threads += rank.threads;
    node.cores.insert(rank.cores.begin(), rank.cores.end());
  }
  for (const auto& [host, node] : nodes)
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
  std::vector<RankCores> ranks;
  for (const std::string& text : world.host_gather(own_cores())) ranks.push_back(parse_cores(text));
  return has_spare_cores(ranks) ? CommProgress::worker : CommProgress::wait;
}

}  // namespace shardmark
