// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/parameter.hpp"

namespace shardmark {

/// The units that are sharded: those of a model, neighbours merged.
struct UnitGroups {
  std::vector<std::vector<Parameter>> parameters;  ///< by unit
  std::vector<bool> is_root;                       ///< by unit
  std::vector<std::size_t> unit_of_stage;
  std::vector<std::size_t> first_parameter;  ///< by stage: where its own unit's parameters begin
};

/// Merges a unit into the one before it while they have at most `most` parameters together (0 merges none),
/// neither is the root, and their stages follow each other: a size-based wrapping policy. More parameters a
/// unit mean fewer and longer messages, and more memory while unsharded.
UnitGroups group_units(const std::vector<std::vector<Parameter>>& units, const std::vector<bool>& is_root,
                       const std::vector<std::size_t>& unit_of_stage, std::size_t most);

}  // namespace shardmark
