// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace shardmark {

/// Who carries out the collectives on MPI, by the words of comm.progress: "wait", "worker", or "auto", which
/// means a worker where every node has a core to spare for it: more cores that its ranks may use together
/// than ranks x threads. Where threads are bound (OMP_PROC_BIND) or ranks are bound to as many cores as they
/// have threads there is none. Builds for a device say "wait" to auto, and refuse a worker, which knows
/// nothing of the device that the main thread chose. Collective; the same answer on all ranks. Throws
/// DeckError.
CommProgress resolve_progress(const std::string& wish, const Communicator& world);

/// The cores that one rank may use.
struct RankCores {
  std::string host;
  int threads = 1;
  std::set<int> cores;
};
/// Of all ranks. Collective.
std::vector<RankCores> gather_cores(const Communicator& world);
/// The ranks of one host together.
struct NodeCores {
  std::size_t ranks = 0, threads = 0;
  std::set<int> cores;
};
std::map<std::string, NodeCores> by_node(const std::vector<RankCores>& ranks);
/// On every host, its ranks together may use more cores than they have threads.
bool has_spare_cores(const std::vector<RankCores>& ranks);

}  // namespace shardmark
