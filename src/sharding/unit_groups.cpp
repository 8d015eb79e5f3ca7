// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "sharding/unit_groups.hpp"

namespace shardmark {

namespace {

std::size_t size_of(const std::vector<Parameter>& parameters) {
  std::size_t size = 0;
  for (const Parameter& parameter : parameters) size += parameter.size();
  return size;
}

/// Whether the last stage of unit u is followed by the first of unit u + 1, and neither is used elsewhere.
bool adjacent(const std::vector<std::size_t>& unit_of_stage, std::size_t u) {
  std::size_t changes = 0;
  bool follows = false;
  for (std::size_t s = 0; s + 1 < unit_of_stage.size(); ++s) {
    const std::size_t here = unit_of_stage[s], next = unit_of_stage[s + 1];
    if (here != next && (here == u || next == u + 1)) ++changes;
    follows = follows || (here == u && next == u + 1);
  }
  return follows && changes == 1;
}

}  // namespace

UnitGroups group_units(const std::vector<std::vector<Parameter>>& units, const std::vector<bool>& is_root,
                       const std::vector<std::size_t>& unit_of_stage, std::size_t most) {
  UnitGroups groups;
  std::vector<std::size_t> group_of_unit, first_of_unit;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const bool merge = u > 0 && !is_root[u] && !is_root[u - 1] && adjacent(unit_of_stage, u - 1) &&
                       size_of(groups.parameters.back()) + size_of(units[u]) <= most;
    if (!merge) {
      groups.parameters.emplace_back();
      groups.is_root.push_back(is_root[u]);
    }
    auto& merged = groups.parameters.back();
    group_of_unit.push_back(groups.parameters.size() - 1);
    first_of_unit.push_back(merged.size());
    merged.insert(merged.end(), units[u].begin(), units[u].end());
  }
  for (std::size_t unit : unit_of_stage) {
    groups.unit_of_stage.push_back(group_of_unit[unit]);
    groups.first_parameter.push_back(first_of_unit[unit]);
  }
  return groups;
}

}  // namespace shardmark
