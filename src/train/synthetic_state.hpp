// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "checkpoint/format.hpp"
#include "train/plan.hpp"

namespace shardmark {

/// What a run of this deck would save, model and optimizer state, filled with a pattern instead: for
/// measuring and testing storage without a trainer. The same pieces as a trainer's, in memory of its own.
class SyntheticState {
 public:
  /// `rank` of the P ranks of the plan: whose part it is. Not filled.
  SyntheticState(const RunConfig& config, const Plan& plan, int rank);

  /// Puts the pattern into the pieces, and the whole tensors' fingerprints into contents(). Collective, each
  /// of the P ranks with a part of its own.
  void fill(const Communicator& world);
  /// Elements of the pieces that differ from the pattern.
  std::size_t wrong_elements() const;
  /// Makes every element wrong.
  void clear();

  checkpoint::Contents& contents() { return contents_; }
  std::size_t bytes() const { return memory_.size(); }  ///< of this part

 private:
  checkpoint::Contents contents_;
  std::vector<std::byte> memory_;
};

}  // namespace shardmark
