// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <mutex>

#include "core/error.hpp"
#include "core/fingerprint.hpp"
#include "core/rng.hpp"
#include "data/sources.hpp"

namespace shardmark {
namespace {

/// Regression on a fixed random network: x ~ N(0, I), y = A tanh(W x / sqrt(features)) with standard normal W
/// and A, each response scaled to unit variance as measured on samples of a stream of their own.
class Teacher : public Dataset {
 public:
  Teacher(const DataConfig& config, const SampleShape& shape, std::uint64_t seed)
      : validation_samples_(config.validation_samples),
        features_(shape.features),
        responses_(shape.responses),
        seed_(seed),
        training_key_(stream_key(seed, "data/teacher/training")),
        validation_key_(stream_key(seed, "data/teacher/validation")) {}

  std::uint64_t samples(Split split) const override {
    return split == Split::training ? 0 : validation_samples_;
  }

  void arrays(Split split, std::uint64_t index, double* features, double* responses) const override {
    if (split == Split::validation) check_validation_index(index, validation_samples_);
    std::call_once(made_, [this] { make_network(); });
    sample(split == Split::training ? training_key_ : validation_key_, index, features, responses);
  }

  bool has_tokens() const override { return false; }

  std::uint64_t fingerprint() const override {
    std::uint64_t print = stream_key(seed_, "data/teacher");
    for (std::uint64_t part : {features_, responses_}) print = mix64(print ^ part);
    return print;
  }

  std::string describe() const override {
    return fmt::format("teacher: {} features, {} responses of a random network with {} tanh units", features_,
                       responses_, hidden);
  }

 private:
  static constexpr std::size_t hidden = 32;

  void sample(std::uint64_t key, std::uint64_t index, double* features, double* responses) const {
    for (std::size_t f = 0; f < features_; ++f) features[f] = Philox(key, index, f).normal();
    std::fill_n(responses, responses_, 0.0);
    double sums[hidden] = {};
    for (std::size_t f = 0; f < features_; ++f)
      for (std::size_t h = 0; h < hidden; ++h) sums[h] += inner_[f * hidden + h] * features[f];
    for (std::size_t h = 0; h < hidden; ++h) {
      const double active = std::tanh(sums[h]);
      for (std::size_t r = 0; r < responses_; ++r) responses[r] += outer_[r * hidden + h] * active;
    }
  }

  /// Left to the first sample: of a large network it takes a while, and a forecast needs none of it.
  void make_network() const {
    const std::uint64_t inner_key = stream_key(seed_, "data/teacher/inner");
    const std::uint64_t outer_key = stream_key(seed_, "data/teacher/outer");
    const double scale = 1 / std::sqrt(static_cast<double>(features_));
    inner_.resize(hidden * features_);
    outer_.resize(responses_ * hidden);
    for (std::size_t i = 0; i < inner_.size(); ++i)
      inner_[i % features_ * hidden + i / features_] = scale * Philox(inner_key, i).normal();
    for (std::size_t i = 0; i < outer_.size(); ++i) outer_[i] = Philox(outer_key, i).normal();
    constexpr std::size_t count = 2048;
    const std::uint64_t key = stream_key(seed_, "data/teacher/scale");
    std::vector<double> features(features_), responses(responses_), squares(responses_, 0.0);
    for (std::size_t i = 0; i < count; ++i) {
      sample(key, i, features.data(), responses.data());
      for (std::size_t r = 0; r < responses_; ++r) squares[r] += responses[r] * responses[r];
    }
    for (std::size_t i = 0; i < outer_.size(); ++i) outer_[i] /= std::sqrt(squares[i / hidden] / count);
  }

  std::uint64_t validation_samples_;
  std::size_t features_, responses_;
  std::uint64_t seed_;
  std::uint64_t training_key_, validation_key_;
  mutable std::once_flag made_;
  mutable std::vector<double> inner_;  // (features, hidden)
  mutable std::vector<double> outer_;  // (responses, hidden)
};

}  // namespace

std::unique_ptr<Dataset> make_teacher(const DataConfig& config, const SampleShape& shape,
                                      std::uint64_t seed) {
  if (shape.features == 0 || shape.responses == 0)
    throw DeckError(
        "data.kind = \"teacher\" needs a model with at least one input and one output (model.sizes)");
  return std::make_unique<Teacher>(config, shape, seed);
}

}  // namespace shardmark
