// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardmark {

/// A random Markov chain of order 1. Every state has the same number of distinct successors with
/// probabilities drawn uniformly from the simplex. One successor is the next state on a random cycle through
/// all states, so every state is reached from every other; the first state of the cycle may also follow
/// itself, so the chain has no period. Hence the stationary distribution is unique.
class MarkovChain {
 public:
  /// 2 <= successors <= states.
  MarkovChain(std::size_t states, std::size_t successors, std::uint64_t seed);

  std::size_t states() const { return stationary_.size(); }
  double probability(std::size_t from, std::size_t to) const;
  const std::vector<double>& stationary() const { return stationary_; }  ///< sums to 1

  double entropy_rate() const;     ///< in nats: of a token given the one before it
  double unigram_entropy() const;  ///< in nats: of a token alone

  /// Inverse of the cumulative distribution at 0 <= u < 1: the first state, and the one after `from`.
  std::size_t first(double u) const;
  std::size_t next(std::size_t from, double u) const;

 private:
  void draw_table(std::size_t states, std::uint64_t seed);
  void find_stationary();

  std::size_t successors_;
  std::vector<std::uint32_t> successor_;  // (states, successors)
  std::vector<double> probability_;       // (states, successors)
  std::vector<double> cumulative_;        // (states, successors); ends in 1
  std::vector<double> stationary_;        // (states)
  std::vector<double> first_;             // (states): stationary, cumulative; ends in 1
};

}  // namespace shardmark
