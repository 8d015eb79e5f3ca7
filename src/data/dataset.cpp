// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <stdexcept>

#include "core/error.hpp"
#include "data/sources.hpp"

namespace shardmark {
namespace {

struct Source {
  const char* kind;
  bool has_tokens;
  std::unique_ptr<Dataset> (*make)(const DataConfig&, const SampleShape&, std::uint64_t);
};
constexpr Source sources[] = {{"bytes", true, make_bytes},
                              {"tokens", true, make_tokens},
                              {"markov", true, make_markov},
                              {"teacher", false, make_teacher}};

std::string kinds(bool tokens, bool arrays) {
  std::vector<std::string> names;
  for (const Source& source : sources)
    if (source.has_tokens ? tokens : arrays) names.push_back(fmt::format("\"{}\"", source.kind));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::unique_ptr<Dataset> make_dataset(const DataConfig& config, const SampleShape& shape,
                                      std::uint64_t seed) {
  const bool wants_tokens = shape.context > 0;
  for (const Source& source : sources) {
    if (config.kind != source.kind) continue;
    if (source.has_tokens != wants_tokens)
      throw DeckError(fmt::format("data.kind = \"{}\" does not fit this model, which takes {}; valid: {}",
                                  config.kind, wants_tokens ? "tokens" : "arrays",
                                  kinds(wants_tokens, !wants_tokens)));
    return source.make(config, shape, seed);
  }
  throw DeckError(fmt::format("data.kind = \"{}\" is unknown; valid: {}", config.kind, kinds(true, true)));
}

void Dataset::tokens(Split, std::uint64_t, std::int32_t*) const {
  throw std::logic_error("a source of arrays was asked for tokens");
}

void Dataset::arrays(Split, std::uint64_t, double*, double*) const {
  throw std::logic_error("a source of tokens was asked for arrays");
}

double Dataset::lowest_loss() const {
  return std::numeric_limits<double>::quiet_NaN();
}

void check_validation_index(std::uint64_t index, std::uint64_t samples) {
  if (index >= samples)
    throw std::out_of_range(fmt::format("validation sample {} of {} was asked for", index, samples));
}

}  // namespace shardmark
