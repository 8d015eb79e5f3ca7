// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <tuple>
#include <vector>

#include "core/rng.hpp"

namespace shardmark {

/// Rows of value numbers, one a factor, such that every pair of values of two factors that `valid` rows can
/// show stands in some row. Greedy: of a few hundred random rows, the one that shows most new pairs; the
/// same on every machine. Ends when 20 rounds in a row found nothing new.
inline std::vector<std::vector<std::size_t>> all_pairs(
    const std::vector<std::size_t>& values,
    const std::function<bool(const std::vector<std::size_t>&)>& valid) {
  using Pair = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;
  std::set<Pair> shown;
  const auto new_pairs = [&](const std::vector<std::size_t>& row) {
    std::vector<Pair> pairs;
    for (std::size_t a = 0; a < row.size(); ++a)
      for (std::size_t b = a + 1; b < row.size(); ++b)
        if (shown.count({a, row[a], b, row[b]}) == 0) pairs.emplace_back(a, row[a], b, row[b]);
    return pairs;
  };
  std::vector<std::vector<std::size_t>> rows;
  std::uint64_t draw = 0;
  const std::uint64_t key = stream_key(1, "all pairs");
  for (int barren = 0; barren < 20;) {
    std::vector<std::size_t> best;
    std::vector<Pair> most;
    for (int candidate = 0; candidate < 200; ++candidate) {
      std::vector<std::size_t> row;
      for (std::size_t count : values)
        row.push_back(static_cast<std::size_t>(Philox(key, draw++).uniform() * static_cast<double>(count)));
      const auto pairs = new_pairs(row);
      if (pairs.size() > most.size() && valid(row)) {
        best = row;
        most = pairs;
      }
    }
    if (most.empty()) {
      ++barren;
      continue;
    }
    barren = 0;
    shown.insert(most.begin(), most.end());
    rows.push_back(best);
  }
  return rows;
}

}  // namespace shardmark
