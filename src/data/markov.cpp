// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/error.hpp"
#include "core/fingerprint.hpp"
#include "core/rng.hpp"
#include "data/markov_chain.hpp"
#include "data/sources.hpp"

namespace shardmark {
namespace {

/// Samples of a Markov chain: a text whose lowest loss is known. A model that learns only how often tokens
/// come stops at the unigram entropy, one that learns what follows what reaches the entropy rate (Shannon
/// 1948).
class Markov : public Dataset {
 public:
  Markov(const DataConfig& config, const SampleShape& shape, std::uint64_t seed)
      : config_(config),
        context_(shape.context),
        seed_(seed),
        chain_(config.states, config.successors, seed),
        training_key_(stream_key(seed, "data/markov/training")),
        validation_key_(stream_key(seed, "data/markov/validation")) {
    if (chain_.unigram_entropy() < 1.5 * chain_.entropy_rate())
      throw DeckError(
          fmt::format("data.successors = {} of data.states = {} leaves too little to learn: unigram "
                      "entropy {:.4f} is below 1.5 x entropy rate {:.4f}; take fewer successors or "
                      "more states",
                      config.successors, config.states, chain_.unigram_entropy(), chain_.entropy_rate()));
  }

  std::uint64_t samples(Split split) const override {
    return split == Split::training ? 0 : config_.validation_samples;
  }

  /// Token t of sample i is drawn with the number at counter (i, t): no sample depends on another.
  void tokens(Split split, std::uint64_t index, std::int32_t* tokens) const override {
    if (split == Split::validation) check_validation_index(index, config_.validation_samples);
    const std::uint64_t key = split == Split::training ? training_key_ : validation_key_;
    std::size_t state = chain_.first(Philox(key, index, 0).uniform());
    tokens[0] = static_cast<std::int32_t>(state);
    for (std::size_t t = 1; t <= context_; ++t) {
      state = chain_.next(state, Philox(key, index, t).uniform());
      tokens[t] = static_cast<std::int32_t>(state);
    }
  }

  bool has_tokens() const override { return true; }

  std::uint64_t fingerprint() const override {
    std::uint64_t print = stream_key(seed_, "data/markov");
    for (std::uint64_t part : {config_.states, config_.successors, context_}) print = mix64(print ^ part);
    return print;
  }

  std::string describe() const override {
    return fmt::format(
        "markov: {} states with {} successors, entropy rate {:.4f} nats, unigram entropy {:.4f}",
        config_.states, config_.successors, chain_.entropy_rate(), chain_.unigram_entropy());
  }

  double lowest_loss() const override { return chain_.entropy_rate(); }

 private:
  DataConfig config_;
  std::size_t context_;
  std::uint64_t seed_;
  MarkovChain chain_;
  std::uint64_t training_key_, validation_key_;
};

}  // namespace

std::unique_ptr<Dataset> make_markov(const DataConfig& config, const SampleShape& shape, std::uint64_t seed) {
  if (config.states < 2 || config.states > shape.vocab)
    throw DeckError(
        fmt::format("data.states = {} is not valid: 2 up to model.vocab = {}", config.states, shape.vocab));
  if (config.successors < 2 || config.successors > config.states)
    throw DeckError(
        fmt::format("data.successors = {} is not valid: 2 (1 makes a cycle with a period) up to "
                    "data.states = {}",
                    config.successors, config.states));
  return std::make_unique<Markov>(config, shape, seed);
}

}  // namespace shardmark
