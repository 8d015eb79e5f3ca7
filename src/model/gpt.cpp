// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "layers/attention.hpp"
#include "layers/cross_entropy.hpp"
#include "layers/embedding.hpp"
#include "layers/gelu.hpp"
#include "layers/layernorm.hpp"
#include "layers/linear.hpp"
#include "model/kinds.hpp"

namespace shardmark {
namespace {

// Parameters by their place in a unit, in the order of units_of().
enum Root : std::size_t { wte, wpe, ln_f_weight, ln_f_bias };
enum Head : std::size_t { lm_head };
enum Block : std::size_t {
  ln_1_weight,
  ln_1_bias,
  c_attn_weight,
  c_attn_bias,
  attn_proj_weight,
  attn_proj_bias,
  ln_2_weight,
  ln_2_bias,
  c_fc_weight,
  c_fc_bias,
  mlp_proj_weight,
  mlp_proj_bias
};

/// GPT-2's own draw: normal 0.02, also for positions; projections into the residual stream 0.02 / sqrt(2 L).
std::vector<UnitSpec> units_of(const ModelConfig& config) {
  const std::size_t c = config.width, v = config.vocab, t = config.context;
  const Init normal{Init::Kind::normal, 0.02}, ones{Init::Kind::ones, 0}, zeros{Init::Kind::zeros, 0};
  const Init projection{Init::Kind::normal, 0.02 / std::sqrt(2.0 * static_cast<double>(config.layers))};
  std::vector<UnitSpec> units = {{"root",
                                  {{"transformer.wte.weight", {v, c}, normal, true},
                                   {"transformer.wpe.weight", {t, c}, normal, true},
                                   {"transformer.ln_f.weight", {c}, ones, false},
                                   {"transformer.ln_f.bias", {c}, zeros, false}},
                                  true}};
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = "h." + std::to_string(layer), h = "transformer." + name;
    units.push_back({name,
                     {{h + ".ln_1.weight", {c}, ones, false},
                      {h + ".ln_1.bias", {c}, zeros, false},
                      {h + ".attn.c_attn.weight", {3 * c, c}, normal, true},
                      {h + ".attn.c_attn.bias", {3 * c}, zeros, false},
                      {h + ".attn.c_proj.weight", {c, c}, projection, true},
                      {h + ".attn.c_proj.bias", {c}, zeros, false},
                      {h + ".ln_2.weight", {c}, ones, false},
                      {h + ".ln_2.bias", {c}, zeros, false},
                      {h + ".mlp.c_fc.weight", {4 * c, c}, normal, true},
                      {h + ".mlp.c_fc.bias", {4 * c}, zeros, false},
                      {h + ".mlp.c_proj.weight", {c, 4 * c}, projection, true},
                      {h + ".mlp.c_proj.bias", {c}, zeros, false}},
                     false});
  }
  if (!config.tie_embeddings) units.push_back({"head", {{"lm_head.weight", {v, c}, normal, true}}, false});
  return units;
}

/// An activation or its gradient: rows for the largest micro-batch, of which a batch uses the first.
template <class T>
struct Activation {
  OwnedVector<T> data;
  std::size_t width;

  Activation(const std::string& label, std::size_t rows, std::size_t columns)
      : data(allocate<T>(label, rows * columns)), width(columns) {}
  /// `rows` rows from `first`.
  Matrix<T> operator()(std::size_t rows, std::size_t first = 0) const {
    return Matrix<T>(data.data() + first * width, rows, width);
  }
};

template <class T>
struct SavedStatistics {
  OwnedVector<T> mean, rstd;  // (N)

  explicit SavedStatistics(std::size_t rows)
      : mean(allocate<T>("shardmark::gpt::layernorm_mean", rows)),
        rstd(allocate<T>("shardmark::gpt::layernorm_rstd", rows)) {}
  operator LayernormStatistics<T>() const { return {mean, rstd}; }
};

/// What a block keeps from its forward pass for its backward pass.
template <class T>
struct BlockActivations {
  SavedStatistics<T> statistics_1, statistics_2;
  Activation<T> normed_1;   // (N, C)
  Activation<T> qkv;        // (N, 3C)
  OwnedVector<T> log_sums;  // (B H T)
  Activation<T> attended;   // (N, C)
  Activation<T> middle;     // (N, C), the residual stream after attention
  Activation<T> normed_2;   // (N, C)
  Activation<T> hidden;     // (N, 4C), before the gelu
  Activation<T> activated;  // (N, 4C), after it
  Activation<T> output;     // (N, C), the residual stream after the block

  BlockActivations(std::size_t n, std::size_t c, std::size_t heads)
      : statistics_1(n),
        statistics_2(n),
        normed_1("shardmark::gpt::normed", n, c),
        qkv("shardmark::gpt::qkv", n, 3 * c),
        log_sums(allocate<T>("shardmark::gpt::log_sums", n * heads)),
        attended("shardmark::gpt::attended", n, c),
        middle("shardmark::gpt::residual", n, c),
        normed_2("shardmark::gpt::normed", n, c),
        hidden("shardmark::gpt::hidden", n, 4 * c),
        activated("shardmark::gpt::activated", n, 4 * c),
        output("shardmark::gpt::residual", n, c) {}
};

/// Rows of logits that exist at a time: the loss and its gradient go through a micro-batch in such pieces.
constexpr std::size_t logit_rows = exec_is_host ? 512 : 8192;

/// Stages: embed, one a block, ln_f, and the head with the loss. N = B T rows, in the order (b, t).
template <class T>
class Gpt : public Model<T> {
 public:
  Gpt(const ModelConfig& config, std::size_t micro_batch)
      : config_(config),
        micro_batch_(micro_batch),
        max_rows_(micro_batch * config.context),
        embedded_("shardmark::gpt::residual", max_rows_, config.width),
        final_statistics_(max_rows_),
        normed_("shardmark::gpt::normed", max_rows_, config.width),
        logits_("shardmark::gpt::logits", std::min(max_rows_, logit_rows), config.vocab),
        losses_(allocate<double>("shardmark::gpt::losses", std::min(max_rows_, logit_rows))),
        d_residual_("shardmark::gpt::residual_gradient", max_rows_, config.width),
        d_narrow_("shardmark::gpt::narrow_gradient", max_rows_, config.width),
        d_wide_(allocate<T>("shardmark::gpt::wide_gradient", max_rows_ * 4 * config.width)),
        scratch_(allocate<T>("shardmark::gpt::attention_scratch",
                             attention_scratch_size<T>(attention(micro_batch)))) {
    this->units_ = units_of(config);
    this->stages_.push_back({"embed", 0});
    for (std::size_t layer = 0; layer < config.layers; ++layer) {
      this->stages_.push_back({this->units_[layer + 1].name, layer + 1});
      blocks_.emplace_back(max_rows_, config.width, config.heads);
    }
    this->stages_.push_back({"ln_f", 0});
    this->stages_.push_back({"head", config.tie_embeddings ? 0 : config.layers + 1});
  }

  std::size_t terms_per_sample() const override { return config_.context; }

  /// 6 a weight in a matrix product and token, the head included and the lookup of embeddings not; and
  /// 12 L C T / 2 a token for attention: 2 products of 2 C T forward, twice that backward, half of it masked.
  double flops_per_sample() const override {
    const double l = config_.layers, c = config_.width, t = config_.context, v = config_.vocab;
    return t * (6 * (12 * l * c * c + v * c) + 12 * l * c * t / 2);
  }

  void forward(const Exec& exec, std::size_t stage, const UnitTensors<const T>& p,
               const Batch<T>& batch) override {
    const std::size_t n = rows(batch);
    if (n == 0) return;
    if (stage == 0) {
      embedding_forward<T>(exec, tokens(batch), p.matrix(wte), p.matrix(wpe), embedded_(n));
    } else if (stage <= blocks_.size()) {
      forward_block(exec, stage - 1, p, batch);
    } else {
      layernorm_forward<T>(exec, residual(blocks_.size(), n), p.vector(ln_f_weight), p.vector(ln_f_bias),
                           normed_(n), final_statistics_);
    }
  }

  void loss(const Exec& exec, const UnitTensors<const T>& p, const Batch<T>& batch,
            const Vector<double>& loss_sum) override {
    for_each_chunk(batch, [&](std::size_t begin, const Matrix<T>& x, const Matrix<T>& logits) {
      linear_forward<T>(exec, x, p.matrix(head_weight()), {}, {}, logits);
      cross_entropy<T>(exec, logits, {tokens(batch), begin}, losses_, loss_sum);
    });
  }

  void loss_and_backward(const Exec& exec, const UnitTensors<const T>& p, const UnitTensors<T>& g,
                         const Batch<T>& batch, const Vector<double>& loss_sum) override {
    for_each_chunk(batch, [&](std::size_t begin, const Matrix<T>& x, const Matrix<T>& logits) {
      const Matrix<T> dx = d_narrow_(x.extent(0), begin);
      linear_forward<T>(exec, x, p.matrix(head_weight()), {}, {}, logits);
      cross_entropy_and_gradient<T>(exec, batch.loss_scale, logits, {tokens(batch), begin}, losses_, loss_sum,
                                    logits);
      linear_backward<T>(exec, logits, x, p.matrix(head_weight()), g.matrix(head_weight()), {}, dx);
    });
  }

  void backward(const Exec& exec, std::size_t stage, const UnitTensors<const T>& p, const UnitTensors<T>& g,
                const Batch<T>& batch) override {
    const std::size_t n = rows(batch);
    if (n == 0) return;
    if (stage == 0) {
      embedding_backward<T>(exec, tokens(batch), d_residual_(n), g.matrix(wte), g.matrix(wpe));
    } else if (stage <= blocks_.size()) {
      backward_block(exec, stage - 1, p, g, batch);
    } else {
      layernorm_backward<T>(exec, d_narrow_(n), residual(blocks_.size(), n), p.vector(ln_f_weight),
                            final_statistics_, g.vector(ln_f_weight), g.vector(ln_f_bias), d_residual_(n),
                            Into::write);
    }
  }

 private:
  void forward_block(const Exec& exec, std::size_t layer, const UnitTensors<const T>& p,
                     const Batch<T>& batch) const {
    const std::size_t n = rows(batch);
    const BlockActivations<T>& a = blocks_[layer];
    const Matrix<T> input = residual(layer, n);

    layernorm_forward<T>(exec, input, p.vector(ln_1_weight), p.vector(ln_1_bias), a.normed_1(n),
                         a.statistics_1);
    linear_forward<T>(exec, a.normed_1(n), p.matrix(c_attn_weight), p.vector(c_attn_bias), {}, a.qkv(n));
    attention_forward<T>(exec, attention(batch.samples), a.qkv(n), a.attended(n), a.log_sums, scratch_);
    linear_forward<T>(exec, a.attended(n), p.matrix(attn_proj_weight), p.vector(attn_proj_bias), input,
                      a.middle(n));

    layernorm_forward<T>(exec, a.middle(n), p.vector(ln_2_weight), p.vector(ln_2_bias), a.normed_2(n),
                         a.statistics_2);
    linear_forward<T>(exec, a.normed_2(n), p.matrix(c_fc_weight), p.vector(c_fc_bias), {}, a.hidden(n));
    gelu_forward<T>(exec, a.hidden(n), a.activated(n));
    linear_forward<T>(exec, a.activated(n), p.matrix(mlp_proj_weight), p.vector(mlp_proj_bias), a.middle(n),
                      a.output(n));
  }

  /// d_residual_ comes in as the gradient of the block's output and leaves as that of its input.
  void backward_block(const Exec& exec, std::size_t layer, const UnitTensors<const T>& p,
                      const UnitTensors<T>& g, const Batch<T>& batch) const {
    const std::size_t n = rows(batch), c = config_.width;
    const BlockActivations<T>& a = blocks_[layer];
    const Matrix<T> d_residual = d_residual_(n), d_narrow = d_narrow_(n);
    const Matrix<T> d_hidden = as_matrix<T>(d_wide_, n, 4 * c), d_qkv = as_matrix<T>(d_wide_, n, 3 * c);

    linear_backward<T>(exec, d_residual, a.activated(n), p.matrix(mlp_proj_weight), g.matrix(mlp_proj_weight),
                       g.vector(mlp_proj_bias), d_hidden);
    gelu_backward<T>(exec, a.hidden(n), d_hidden);
    linear_backward<T>(exec, d_hidden, a.normed_2(n), p.matrix(c_fc_weight), g.matrix(c_fc_weight),
                       g.vector(c_fc_bias), d_narrow);
    layernorm_backward<T>(exec, d_narrow, a.middle(n), p.vector(ln_2_weight), a.statistics_2,
                          g.vector(ln_2_weight), g.vector(ln_2_bias), d_residual, Into::add);

    linear_backward<T>(exec, d_residual, a.attended(n), p.matrix(attn_proj_weight),
                       g.matrix(attn_proj_weight), g.vector(attn_proj_bias), d_narrow);
    attention_backward<T>(exec, attention(batch.samples), d_narrow, a.qkv(n), a.log_sums, d_qkv, scratch_);
    linear_backward<T>(exec, d_qkv, a.normed_1(n), p.matrix(c_attn_weight), g.matrix(c_attn_weight),
                       g.vector(c_attn_bias), d_narrow);
    layernorm_backward<T>(exec, d_narrow, residual(layer, n), p.vector(ln_1_weight), a.statistics_1,
                          g.vector(ln_1_weight), g.vector(ln_1_bias), d_residual, Into::add);
  }

  /// f(first row, normed rows, room for their logits) for each piece of the batch.
  template <class Function>
  void for_each_chunk(const Batch<T>& batch, const Function& f) const {
    const std::size_t n = rows(batch), chunk = losses_.extent(0);
    for (std::size_t begin = 0; begin < n; begin += chunk) {
      const std::size_t count = std::min(chunk, n - begin);
      f(begin, normed_(count, begin), logits_(count));
    }
  }

  std::size_t rows(const Batch<T>& batch) const {
    if (batch.samples > micro_batch_)
      throw std::length_error("gpt: more samples than the model was made for");
    return batch.samples * config_.context;
  }
  /// The residual stream that goes into block `layer`; of the number of blocks, that after the last.
  Matrix<T> residual(std::size_t layer, std::size_t n) const {
    return layer == 0 ? embedded_(n) : blocks_[layer - 1].output(n);
  }
  Matrix<const std::int32_t> tokens(const Batch<T>& batch) const {
    return Matrix<const std::int32_t>(batch.tokens.data(), batch.samples, config_.context + 1);
  }
  AttentionShape attention(std::size_t samples) const {
    return {samples, config_.context, config_.heads, config_.width};
  }
  std::size_t head_weight() const { return config_.tie_embeddings ? std::size_t{wte} : std::size_t{lm_head}; }

  ModelConfig config_;
  std::size_t micro_batch_, max_rows_;
  Activation<T> embedded_;                   // (N, C)
  std::vector<BlockActivations<T>> blocks_;  // L of them
  SavedStatistics<T> final_statistics_;
  Activation<T> normed_;        // (N, C), after ln_f
  Activation<T> logits_;        // (logit_rows, V), and their gradient
  OwnedVector<double> losses_;  // (logit_rows)
  Activation<T> d_residual_;    // (N, C), gradient of the residual stream
  Activation<T> d_narrow_;      // (N, C), gradient of a branch's (N, C) activation
  OwnedVector<T> d_wide_;       // (N, 4C), gradient of hidden and of qkv
  OwnedVector<T> scratch_;      // of attention
};

}  // namespace

template <class T>
std::unique_ptr<Model<T>> make_gpt(const ModelConfig& config, std::size_t micro_batch) {
  return std::make_unique<Gpt<T>>(config, micro_batch);
}
template std::unique_ptr<Model<float>> make_gpt(const ModelConfig&, std::size_t);
template std::unique_ptr<Model<double>> make_gpt(const ModelConfig&, std::size_t);

}  // namespace shardmark
