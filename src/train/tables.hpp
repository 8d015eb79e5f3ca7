// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "train/report.hpp"

namespace shardmark {

// What a run prints, for people: one line a class that is not empty. `measured` may be null.

std::string memory_table(const MemoryBytes& predicted, const MemoryBytes* measured);
/// Peaks by place where there is a device, else nothing.
std::string place_table(const PlaceBytes& measured);
std::string traffic_table(const TrafficByKind& predicted, const TrafficByKind* measured);
/// Where the main thread's time went.
std::string time_table(const RunRecord& record);
/// What there is to say before the first step.
std::string start_text(const RunConfig& config, const Communicator& world, const Mesh& mesh,
                       const RunRecord& record, const TrafficByKind& traffic_of_a_step);
/// Rates and all tables, at the end.
std::string account_text(const RunRecord& record, const std::string& item_name);
/// What follows "FOM: ".
std::string figure_text(const RunRecord& record, const std::string& item_name);

}  // namespace shardmark
