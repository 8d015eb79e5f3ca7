// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "core/error.hpp"
#include "model/kinds.hpp"

namespace shardmark {
namespace {

void require_positive(const char* key, std::size_t value) {
  if (value == 0) throw DeckError(std::string(key) + " = 0: it must be at least 1");
}

void check_gpt(const ModelConfig& config) {
  require_positive("model.layers", config.layers);
  require_positive("model.width", config.width);
  require_positive("model.heads", config.heads);
  require_positive("model.context", config.context);
  require_positive("model.vocab", config.vocab);
  if (config.width % config.heads == 0) return;
  std::string divisors;
  for (std::size_t n = 1; n <= config.width; ++n) {
    if (config.width % n == 0) divisors += (n == 1 ? "" : ", ") + std::to_string(n);
  }
  throw DeckError("model.heads = " + std::to_string(config.heads) +
                  " must divide model.width = " + std::to_string(config.width) + "; valid: " + divisors);
}

void check_mlp(const ModelConfig& config) {
  if (config.sizes.size() < 2)
    throw DeckError("model.sizes lists " + std::to_string(config.sizes.size()) +
                    " sizes: an MLP needs at least 2, the inputs and the outputs");
  for (std::size_t i = 0; i < config.sizes.size(); ++i)
    require_positive(("model.sizes[" + std::to_string(i) + "]").c_str(), config.sizes[i]);
}

}  // namespace

template <class T>
std::unique_ptr<Model<T>> make_model(const ModelConfig& config, std::size_t micro_batch) {
  struct Kind {
    const char* name;
    void (*check)(const ModelConfig&);
    std::unique_ptr<Model<T>> (*make)(const ModelConfig&, std::size_t);
  };
  static constexpr Kind kinds[] = {{"gpt", check_gpt, make_gpt<T>}, {"mlp", check_mlp, make_mlp<T>}};

  require_positive("train.micro_batch", micro_batch);
  std::string names;
  for (const Kind& kind : kinds) {
    if (config.kind == kind.name) {
      kind.check(config);
      return kind.make(config, micro_batch);
    }
    names += (names.empty() ? "\"" : ", \"") + std::string(kind.name) + "\"";
  }
  throw DeckError("model.kind = \"" + config.kind + "\" is unknown; valid: " + names);
}
template std::unique_ptr<Model<float>> make_model(const ModelConfig&, std::size_t);
template std::unique_ptr<Model<double>> make_model(const ModelConfig&, std::size_t);

}  // namespace shardmark
