// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/progress.hpp"

namespace shardmark {

/// What makes a run slow on its nodes, a sentence each: more threads than cores, and numbers of threads that
/// nobody chose. Collective; the same on all ranks.
std::vector<std::string> placement_warnings(const Communicator& world);

/// The same, of nodes by name. `threads_chosen` says that OMP_NUM_THREADS is set on all ranks.
std::vector<std::string> placement_warnings(const std::map<std::string, NodeCores>& nodes,
                                            bool threads_chosen);

}  // namespace shardmark
