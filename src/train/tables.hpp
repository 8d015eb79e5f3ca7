// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "train/report.hpp"

namespace shardmark {

// What a run prints of its accounts, for people: one line a class that is not empty. `measured` may be null.

std::string memory_table(const MemoryBytes& predicted, const MemoryBytes* measured);
std::string traffic_table(const TrafficByKind& predicted, const TrafficByKind* measured);
/// Where the main thread's time went.
std::string time_table(const RunRecord& record);

}  // namespace shardmark
