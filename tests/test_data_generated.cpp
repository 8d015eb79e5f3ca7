// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>
#include <numeric>

#include "data/dataset.hpp"
#include "data/markov_chain.hpp"
#include "test_data.hpp"

namespace shardmark {
namespace {

using Tokens = std::vector<std::int32_t>;

std::unique_ptr<Dataset> markov(std::size_t states, std::size_t successors, std::uint64_t seed = 5,
                                std::size_t context = 64, std::size_t vocab = 100) {
  DataConfig config;
  config.kind = "markov";
  config.states = states;
  config.successors = successors;
  config.validation_samples = 10;
  SampleShape shape;
  shape.context = context;
  shape.vocab = vocab;
  return make_dataset(config, shape, seed);
}

std::unique_ptr<Dataset> teacher(std::size_t features, std::size_t responses, std::uint64_t seed = 5) {
  DataConfig config;
  config.kind = "teacher";
  config.validation_samples = 10;
  SampleShape shape;
  shape.features = features;
  shape.responses = responses;
  return make_dataset(config, shape, seed);
}

Tokens sample(const Dataset& data, Split split, std::uint64_t index, std::size_t context = 64) {
  Tokens tokens(context + 1);
  data.tokens(split, index, tokens.data());
  return tokens;
}

double plogp(double p) {
  return p > 0 ? -p * std::log(p) : 0;
}

TEST(DataMarkov, TableIsStochasticAndTheStationaryDistributionIsInvariant) {
  for (const auto& [states, successors] : {std::pair{2, 2}, {3, 2}, {7, 7}, {64, 4}, {500, 2}}) {
    const MarkovChain chain(states, successors, 9);
    const std::vector<double>& pi = chain.stationary();
    EXPECT_NEAR(std::accumulate(pi.begin(), pi.end(), 0.0), 1, 1e-12);
    std::vector<double> after(states, 0.0);
    for (int from = 0; from < states; ++from) {
      double sum = 0;
      int positive = 0;
      for (int to = 0; to < states; ++to) {
        const double p = chain.probability(from, to);
        sum += p;
        positive += p > 0;
        after[to] += pi[from] * p;
      }
      EXPECT_NEAR(sum, 1, 1e-14);
      EXPECT_EQ(positive, successors);
      EXPECT_GT(pi[from], 0);
    }
    for (int s = 0; s < states; ++s) EXPECT_NEAR(after[s], pi[s], 1e-12);
  }
}

// From every state every state can be reached in exactly the same number of steps: irreducible, no period.
TEST(DataMarkov, ChainIsErgodic) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    constexpr std::size_t states = 12;
    const MarkovChain chain(states, 2, seed);
    for (std::size_t start = 0; start < states; ++start) {
      std::vector<bool> reached(states, false);
      reached[start] = true;
      for (std::size_t step = 0; step < states * states; ++step) {  // Wielandt's bound is (n - 1)^2 + 1
        std::vector<bool> next(states, false);
        for (std::size_t from = 0; from < states; ++from)
          for (std::size_t to = 0; to < states; ++to)
            if (reached[from] && chain.probability(from, to) > 0) next[to] = true;
        reached = next;
      }
      EXPECT_EQ(reached, std::vector<bool>(states, true)) << "seed " << seed << ", start " << start;
    }
  }
}

TEST(DataMarkov, EntropiesFollowFromTheTable) {
  const MarkovChain chain(32, 4, 5);
  double unigram = 0, joint = 0;  // rate = entropy of pairs - entropy of single tokens
  for (std::size_t from = 0; from < 32; ++from) {
    unigram += plogp(chain.stationary()[from]);
    for (std::size_t to = 0; to < 32; ++to)
      joint += plogp(chain.stationary()[from] * chain.probability(from, to));
  }
  EXPECT_NEAR(chain.unigram_entropy(), unigram, 1e-12);
  EXPECT_NEAR(chain.entropy_rate(), joint - unigram, 1e-12);
  EXPECT_GE(chain.unigram_entropy(), 1.5 * chain.entropy_rate());
  const auto data = markov(32, 4);
  EXPECT_EQ(data->lowest_loss(), chain.entropy_rate());
  EXPECT_NE(data->describe().find(std::to_string(chain.entropy_rate()).substr(0, 5)), std::string::npos);
  EXPECT_NE(data->describe().find(std::to_string(chain.unigram_entropy()).substr(0, 5)), std::string::npos);
}

// What the samples show: first tokens follow the stationary distribution, pairs the table, and the mean of
// -log p of what came next is the entropy rate.
TEST(DataMarkov, SamplesFollowTheChain) {
  constexpr std::size_t states = 8, samples = 4000, context = 64;
  const MarkovChain chain(states, 3, 2);
  const auto data = markov(states, 3, 2);
  std::vector<double> first(states, 0), pairs(states * states, 0), from(states, 0);
  double loss = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    const Tokens tokens = sample(*data, Split::training, i);
    ++first[tokens[0]];
    for (std::size_t t = 0; t < context; ++t) {
      ++from[tokens[t]];
      ++pairs[tokens[t] * states + tokens[t + 1]];
      loss -= std::log(chain.probability(tokens[t], tokens[t + 1]));
    }
  }
  for (std::size_t s = 0; s < states; ++s) {
    const double pi = chain.stationary()[s];
    EXPECT_NEAR(first[s] / samples, pi, 5 * std::sqrt(pi / samples));
    EXPECT_NEAR(from[s] / (samples * context), pi, 10 * std::sqrt(pi / (samples * context)));
    for (std::size_t to = 0; to < states; ++to) {
      const double p = chain.probability(s, to);
      EXPECT_NEAR(pairs[s * states + to] / from[s], p, 5 * std::sqrt(p / from[s])) << s << " to " << to;
    }
  }
  EXPECT_NEAR(loss / (samples * context), data->lowest_loss(), 0.01);
}

TEST(DataMarkov, SamplesAreAFunctionOfSeedSplitAndIndex) {
  const auto data = markov(32, 4), again = markov(32, 4), other = markov(32, 4, 6);
  EXPECT_EQ(data->samples(Split::training), 0u);
  EXPECT_EQ(data->samples(Split::validation), 10u);
  const std::uint64_t far = std::uint64_t{1} << 40;
  const Tokens tokens = sample(*data, Split::training, far);
  sample(*data, Split::training, 3);
  EXPECT_EQ(sample(*again, Split::training, far), tokens);
  EXPECT_NE(sample(*data, Split::training, far + 1), tokens);
  EXPECT_NE(sample(*data, Split::training, 0), sample(*data, Split::validation, 0));
  EXPECT_NE(sample(*other, Split::training, far), tokens);
  EXPECT_THROW(sample(*data, Split::validation, 10), std::out_of_range);
  EXPECT_EQ(data->fingerprint(), again->fingerprint());
  EXPECT_NE(data->fingerprint(), other->fingerprint());
  EXPECT_NE(data->fingerprint(), markov(33, 4)->fingerprint());
  EXPECT_NE(data->fingerprint(), markov(32, 3)->fingerprint());
}

TEST(DataMarkov, Failures) {
  expect_failure<DeckError>([] { markov(101, 4); }, {"data.states = 101", "model.vocab = 100"});
  expect_failure<DeckError>([] { markov(1, 1); }, {"data.states = 1", "2 up to"});
  for (std::size_t successors : {0, 1, 33})
    expect_failure<DeckError>([=] { markov(32, successors); }, {"data.successors = ", "data.states = 32"});
  expect_failure<DeckError>([] { markov(32, 32); }, {"data.successors = 32", "unigram entropy",
                                                     "1.5 x entropy rate", "fewer successors"});
}

TEST(DataTeacher, FeaturesAreNormalAndResponsesHaveUnitVariance) {
  constexpr std::size_t features = 3, responses = 2, samples = 20000;
  const auto data = teacher(features, responses);
  double mean[5] = {}, square[5] = {}, fourth[5] = {}, cross = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    double x[5];
    data->arrays(Split::training, i, x, x + features);
    for (std::size_t k = 0; k < 5; ++k) {
      mean[k] += x[k] / samples;
      square[k] += x[k] * x[k] / samples;
      fourth[k] += x[k] * x[k] * x[k] * x[k] / samples;
    }
    cross += x[0] * x[1] / samples;
  }
  for (std::size_t k = 0; k < 5; ++k) {
    EXPECT_NEAR(mean[k], 0, 0.05);
    EXPECT_NEAR(square[k], 1, k < features ? 0.05 : 0.1) << k;
    EXPECT_NEAR(fourth[k], 3, k < features ? 0.25 : 2);
  }
  EXPECT_NEAR(cross, 0, 0.05);
}

TEST(DataTeacher, SamplesAreAFunctionOfSeedSplitAndIndex) {
  const auto data = teacher(4, 2), again = teacher(4, 2), other = teacher(4, 2, 6);
  const auto values = [](const Dataset& source, Split split, std::uint64_t index) {
    std::vector<double> both(6);
    source.arrays(split, index, both.data(), both.data() + 4);
    return both;
  };
  EXPECT_EQ(data->samples(Split::training), 0u);
  EXPECT_EQ(values(*data, Split::training, 77), values(*again, Split::training, 77));
  EXPECT_NE(values(*data, Split::training, 77), values(*data, Split::training, 78));
  EXPECT_NE(values(*data, Split::training, 7), values(*data, Split::validation, 7));
  EXPECT_NE(values(*data, Split::training, 77), values(*other, Split::training, 77));
  EXPECT_NE(data->fingerprint(), other->fingerprint());
  EXPECT_NE(data->fingerprint(), teacher(4, 3)->fingerprint());
  EXPECT_THROW(values(*data, Split::validation, 10), std::out_of_range);
  EXPECT_TRUE(std::isnan(data->lowest_loss()));
  expect_failure<DeckError>([] { teacher(0, 2); }, {"teacher", "model.sizes"});
}

// A line through the origin: with one feature and odd tanh, y(-x) = -y(x) and y(0) = 0, and y is no noise.
TEST(DataTeacher, ResponsesAreAFunctionOfTheFeatures) {
  const auto data = teacher(1, 1);
  std::vector<std::pair<double, double>> points(2000);
  for (std::size_t i = 0; i < points.size(); ++i)
    data->arrays(Split::training, i, &points[i].first, &points[i].second);
  std::sort(points.begin(), points.end());
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double dx = points[i].first - points[i - 1].first, dy = points[i].second - points[i - 1].second;
    EXPECT_LE(std::abs(dy), 60 * dx);  // at most sum |A W|, about 30
  }
}

}  // namespace
}  // namespace shardmark
