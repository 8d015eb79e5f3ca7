// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "layers/attention.hpp"
#include "model/gpt.hpp"
#include "model/kinds.hpp"

namespace shardmark {

/// GPT-2's own draw: normal 0.02, also for positions; projections into the residual stream 0.02 / sqrt(2 L).
static std::vector<UnitSpec> gpt_units(const ModelConfig& config) {
  const std::size_t c = config.width, v = config.vocab, t = config.context;
  const Init normal{Init::Kind::normal, 0.02}, ones{Init::Kind::ones, 0}, zeros{Init::Kind::zeros, 0};
  const Init projection{Init::Kind::normal, 0.02 / std::sqrt(2.0 * static_cast<double>(config.layers))};
  std::vector<UnitSpec> units = {{"root",
                                  {{"transformer.wte.weight", {v, c}, normal, true, config.tie_embeddings},
                                   {"transformer.wpe.weight", {t, c}, normal, true},
                                   {"transformer.ln_f.weight", {c}, ones, false},
                                   {"transformer.ln_f.bias", {c}, zeros, false}},
                                  true}};
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = "h." + std::to_string(layer), h = "transformer." + name;
    units.push_back({name,
                     {{h + ".ln_1.weight", {c}, ones, false},
                      {h + ".ln_1.bias", {c}, zeros, false},
                      {h + ".attn.c_attn.weight", {3 * c, c}, normal, true, true},
                      {h + ".attn.c_attn.bias", {3 * c}, zeros, false},
                      {h + ".attn.c_proj.weight", {c, c}, projection, true, true},
                      {h + ".attn.c_proj.bias", {c}, zeros, false},
                      {h + ".ln_2.weight", {c}, ones, false},
                      {h + ".ln_2.bias", {c}, zeros, false},
                      {h + ".mlp.c_fc.weight", {4 * c, c}, normal, true, true},
                      {h + ".mlp.c_fc.bias", {4 * c}, zeros, false},
                      {h + ".mlp.c_proj.weight", {c, 4 * c}, projection, true, true},
                      {h + ".mlp.c_proj.bias", {c}, zeros, false}},
                     false});
  }
  if (!config.tie_embeddings)
    units.push_back({"head", {{"lm_head.weight", {v, c}, normal, true, true}}, false});
  return units;
}

/// FLOPs: 6 a weight in a matrix product and token, the head included and the lookup of embeddings not; and
/// 12 L C T / 2 a token for attention: 2 products of 2 C T forward, twice that backward, half of it masked.
ModelSpec describe_gpt(const ModelConfig& config) {
  const double l = config.layers, c = config.width, t = config.context, v = config.vocab;
  ModelSpec spec;
  spec.units = gpt_units(config);
  spec.stages.push_back({"embed", 0});
  for (std::size_t layer = 0; layer < config.layers; ++layer)
    spec.stages.push_back({spec.units[layer + 1].name, layer + 1});
  spec.stages.push_back({"ln_f", 0});
  spec.stages.push_back({"head", config.tie_embeddings ? 0 : config.layers + 1});
  spec.terms_per_sample = config.context;
  spec.flops_per_sample = t * (6 * (12 * l * c * c + v * c) + 12 * l * c * t / 2);
  return spec;
}

/// A token and block: 15 C inside and C out, its statistics 4 and H. Blocks that are computed again share one
/// set of what is inside. Beside the blocks: embedding, last norm and two gradients of C each, one of 4 C.
ActivationBytes gpt_activation_bytes(const ModelConfig& config, const ActivationConfig& activations,
                                     std::size_t bytes, std::size_t wide_bytes) {
  const std::uint64_t n = activations.micro_batch * config.context, c = config.width;
  const std::uint64_t rows = std::min<std::uint64_t>(n, activations.head_rows);
  const std::uint64_t layers = config.layers, k = activations.recompute_every;
  const std::uint64_t recomputed = k == 0 ? 0 : (layers + k - 1) / k;
  const std::uint64_t insides = layers - recomputed + (recomputed > 0 ? 1 : 0);
  const std::uint64_t narrow = insides * 15 * c + layers * c + 8 * c;
  const std::uint64_t wide = insides * (4 + config.heads) + 2;
  const AttentionShape shape{activations.micro_batch, config.context, config.heads, config.width};
  const std::uint64_t scratch = bytes == sizeof(double)  ? attention_scratch_size<double>(shape)
                                : bytes == sizeof(float) ? attention_scratch_size<float>(shape)
                                                         : attention_scratch_size<bf16>(shape);
  ActivationBytes result;
  result.activations =
      n * (narrow * bytes + wide * wide_bytes) + scratch * wide_bytes + rows * sizeof(double);
  result.logits = rows * config.vocab * (wide_bytes + (bytes == wide_bytes ? 0 : bytes));
  return result;
}

/// Attention goes by tiles of query rows against the keys up to the tile's last row; here they stand for one
/// tile of half the keys, which is their mean.
std::vector<ProductShape> gpt_products(const ModelConfig& config, const ActivationConfig& activations) {
  const std::size_t n = activations.micro_batch * config.context, c = config.width, v = config.vocab;
  const double l = static_cast<double>(config.layers);
  const std::size_t k = activations.recompute_every;
  const double again = k == 0 ? 0 : static_cast<double>((config.layers + k - 1) / k);
  std::vector<ProductShape> products;
  const auto add = [&](const std::string& name, std::size_t rows, std::size_t inputs, std::size_t outputs,
                       double forward, double backward) {
    for (ProductShape& product : linear_products(name, rows, inputs, outputs, forward, backward))
      products.push_back(std::move(product));
  };
  add("c_attn", n, c, 3 * c, l + again, l);
  add("attn.c_proj", n, c, c, l + again, l);
  add("c_fc", n, c, 4 * c, l + again, l);
  add("mlp.c_proj", n, 4 * c, c, l, l);
  const std::size_t rows = std::min(n, activations.head_rows);
  add("head", rows, c, v, static_cast<double>(n) / static_cast<double>(rows),
      static_cast<double>(n) / static_cast<double>(rows));

  const AttentionShape shape{activations.micro_batch, config.context, config.heads, config.width};
  const std::size_t tile = attention_tile_rows(shape), d = c / config.heads;
  const std::size_t tiles = (config.context + tile - 1) / tile, keys = (config.context + tile) / 2;
  const double heads = static_cast<double>(activations.micro_batch * config.heads * tiles);
  const double forward = (l + again) * heads, backward = l * heads;
  // Scores and values forward; scores again, and the gradients of p, q, k and v backward.
  products.push_back({"attention scores", false, true, tile, keys, d, forward + 2 * backward, true, true});
  products.push_back({"attention values", false, false, tile, d, keys, forward + backward, false, true});
  products.push_back({"attention key gradients", true, false, keys, d, tile, 2 * backward, true, true});
  return products;
}

}  // namespace shardmark
