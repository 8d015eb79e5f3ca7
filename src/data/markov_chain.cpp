// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "data/markov_chain.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "data/shuffle.hpp"

namespace shardmark {
namespace {

/// Cumulative sums of n probabilities, the last one exactly 1 whatever the rounding.
void accumulate_to_one(const double* probability, std::size_t n, double* cumulative) {
  std::partial_sum(probability, probability + n, cumulative);
  cumulative[n - 1] = 1;
}

double entropy(const double* probability, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (probability[i] > 0) sum -= probability[i] * std::log(probability[i]);
  return sum;
}

}  // namespace

MarkovChain::MarkovChain(std::size_t states, std::size_t successors, std::uint64_t seed)
    : successors_(successors),
      successor_(states * successors),
      probability_(states * successors),
      cumulative_(states * successors),
      stationary_(states, 1.0 / static_cast<double>(states)),
      first_(states) {
  draw_table(states, seed);
  find_stationary();
  accumulate_to_one(stationary_.data(), states, first_.data());
}

void MarkovChain::draw_table(std::size_t states, std::uint64_t seed) {
  const Permutation cycle(states, stream_key(seed, "data/markov/cycle"));
  const std::uint64_t successor_key = stream_key(seed, "data/markov/successors");
  const std::uint64_t weight_key = stream_key(seed, "data/markov/weights");
  for (std::size_t place = 0; place < states; ++place) {
    const std::size_t state = cycle(place);
    std::uint32_t* row = &successor_[state * successors_];
    std::size_t filled = 0;
    row[filled++] = static_cast<std::uint32_t>(cycle((place + 1) % states));
    if (place == 0) row[filled++] = static_cast<std::uint32_t>(state);
    const Permutation others(states, Philox(successor_key, state).bits64());
    for (std::size_t i = 0; filled < successors_; ++i) {
      const std::uint32_t candidate = static_cast<std::uint32_t>(others(i));
      const bool taken = candidate == row[0] || (place == 0 && candidate == state);
      if (!taken) row[filled++] = candidate;
    }
    double* weights = &probability_[state * successors_];  // exponential, then normalised
    for (std::size_t i = 0; i < successors_; ++i)
      weights[i] = -std::log(Philox(weight_key, state, i).uniform());
    const double sum = std::accumulate(weights, weights + successors_, 0.0);
    for (std::size_t i = 0; i < successors_; ++i) weights[i] /= sum;
    accumulate_to_one(weights, successors_, &cumulative_[state * successors_]);
  }
}

/// Power iteration with the lazy chain (I + P) / 2, which has the same stationary distribution and cannot
/// oscillate. Stops at rounding level: the sum of |pi P - pi| below 1e-14.
void MarkovChain::find_stationary() {
  std::vector<double> after(states());
  for (int iteration = 0; iteration < 1'000'000; ++iteration) {
    std::fill(after.begin(), after.end(), 0.0);
    for (std::size_t i = 0; i < successor_.size(); ++i)
      after[successor_[i]] += stationary_[i / successors_] * probability_[i];
    double change = 0, sum = 0;
    for (std::size_t s = 0; s < states(); ++s) {
      change += std::abs(after[s] - stationary_[s]);
      stationary_[s] = 0.5 * (stationary_[s] + after[s]);
      sum += stationary_[s];
    }
    for (double& p : stationary_) p /= sum;
    if (change < 1e-14) return;
  }
  throw DeckError(
      "data.states: the stationary distribution of this chain was not found; try another train.seed");
}

double MarkovChain::probability(std::size_t from, std::size_t to) const {
  for (std::size_t i = from * successors_; i < (from + 1) * successors_; ++i)
    if (successor_[i] == to) return probability_[i];
  return 0;
}

double MarkovChain::entropy_rate() const {
  double sum = 0;
  for (std::size_t s = 0; s < states(); ++s)
    sum += stationary_[s] * entropy(&probability_[s * successors_], successors_);
  return sum;
}

double MarkovChain::unigram_entropy() const {
  return entropy(stationary_.data(), states());
}

std::size_t MarkovChain::first(double u) const {
  return std::upper_bound(first_.begin(), first_.end(), u) - first_.begin();
}

std::size_t MarkovChain::next(std::size_t from, double u) const {
  const auto row = cumulative_.begin() + static_cast<std::ptrdiff_t>(from * successors_);
  return successor_[std::upper_bound(row, row + static_cast<std::ptrdiff_t>(successors_), u) -
                    cumulative_.begin()];
}

}  // namespace shardmark
