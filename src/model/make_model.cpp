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

struct Kind {
  const char* name;
  void (*check)(const ModelConfig&);
  ModelSpec (*describe)(const ModelConfig&);
  ActivationBytes (*bytes)(const ModelConfig&, const ActivationConfig&, std::size_t, std::size_t);
  std::vector<ProductShape> (*products)(const ModelConfig&, const ActivationConfig&);
};
constexpr Kind kinds[] = {{"gpt", check_gpt, describe_gpt, gpt_activation_bytes, gpt_products},
                          {"mlp", check_mlp, describe_mlp, mlp_activation_bytes, mlp_products}};

const Kind& checked_kind(const ModelConfig& config) {
  std::string names;
  for (const Kind& kind : kinds) {
    if (config.kind == kind.name) {
      kind.check(config);
      return kind;
    }
    names += (names.empty() ? "\"" : ", \"") + std::string(kind.name) + "\"";
  }
  throw DeckError("model.kind = \"" + config.kind + "\" is unknown; valid: " + names);
}

}  // namespace

ModelSpec describe_model(const ModelConfig& config) {
  return checked_kind(config).describe(config);
}

ActivationBytes activation_bytes(const ModelConfig& config, const ActivationConfig& activations,
                                 std::size_t bytes, std::size_t wide_bytes) {
  return checked_kind(config).bytes(config, activations, bytes, wide_bytes);
}

std::vector<ProductShape> product_shapes(const ModelConfig& config, const ActivationConfig& activations) {
  return checked_kind(config).products(config, activations);
}

std::vector<ProductShape> linear_products(const std::string& name, std::size_t n, std::size_t inputs,
                                          std::size_t outputs, double forward, double backward,
                                          bool with_input_gradient) {
  std::vector<ProductShape> products = {
      {name + " forward", false, true, n, outputs, inputs, forward},
      {name + " weight gradient", true, false, outputs, inputs, n, backward}};
  if (with_input_gradient)
    products.push_back({name + " input gradient", false, false, n, inputs, outputs, backward});
  return products;
}

template <class T, class G>
std::unique_ptr<Model<T, G>> make_model(const ModelConfig& config, const ActivationConfig& activations) {
  checked_kind(config);
  require_positive("train.micro_batch", activations.micro_batch);
  require_positive("train.head_rows", activations.head_rows);
  return config.kind == "mlp" ? make_mlp<T, G>(config, activations) : make_gpt<T, G>(config, activations);
}

#define SHARDMARK_INSTANTIATE(T, G) \
  template std::unique_ptr<Model<T, G>> make_model(const ModelConfig&, const ActivationConfig&);
SHARDMARK_FOR_PRECISIONS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
