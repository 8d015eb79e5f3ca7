// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "model/gpt.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "layers/attention.hpp"
#include "layers/cross_entropy.hpp"
#include "layers/embedding.hpp"
#include "layers/gelu.hpp"
#include "layers/gemm.hpp"
#include "layers/layernorm.hpp"
#include "layers/linear.hpp"
#include "model/kinds.hpp"

namespace shardmark {
namespace {

using namespace gpt;

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
  OwnedVector<Wide<T>> mean, rstd;  // (N)

  explicit SavedStatistics(std::size_t rows)
      : mean(allocate<Wide<T>>("shardmark::gpt::layernorm_mean", rows)),
        rstd(allocate<Wide<T>>("shardmark::gpt::layernorm_rstd", rows)) {}
  operator LayernormStatistics<Wide<T>>() const { return {mean, rstd}; }
};

/// What is computed inside a block and needed by its backward pass.
template <class T>
struct BlockInside {
  SavedStatistics<T> statistics_1, statistics_2;
  Activation<T> normed_1;         // (N, C)
  Activation<T> qkv;              // (N, 3C)
  OwnedVector<Wide<T>> log_sums;  // (B H T)
  Activation<T> attended;         // (N, C)
  Activation<T> middle;           // (N, C), the residual stream after attention
  Activation<T> normed_2;         // (N, C)
  Activation<T> slope;            // (N, 4C), before the gelu, then its derivative there
  Activation<T> activated;        // (N, 4C), after the gelu

  BlockInside(std::size_t n, std::size_t c, std::size_t heads)
      : statistics_1(n),
        statistics_2(n),
        normed_1("shardmark::gpt::normed", n, c),
        qkv("shardmark::gpt::qkv", n, 3 * c),
        log_sums(allocate<Wide<T>>("shardmark::gpt::log_sums", n * heads)),
        attended("shardmark::gpt::attended", n, c),
        middle("shardmark::gpt::residual", n, c),
        normed_2("shardmark::gpt::normed", n, c),
        slope("shardmark::gpt::slope", n, 4 * c),
        activated("shardmark::gpt::activated", n, 4 * c) {}
};

/// [Note: Recompute] A block that is recomputed keeps its input, which is the output of the block before it.
/// Such blocks share one BlockInside, filled again right before the block's backward pass (T. Chen et al.,
/// "Training deep nets with sublinear memory cost", 2016).
template <class T>
struct Block {
  std::shared_ptr<const BlockInside<T>> inside;
  bool recomputed;
  Activation<T> output;  // (N, C), the residual stream after the block
};

/// Stages: embed, one a block, ln_f, and the head with the loss. N = B T rows, in the order (b, t). The loss
/// and its gradient go through a micro-batch in pieces of head_rows rows.
template <class T, class G>
class Gpt : public Model<T, G> {
 public:
  Gpt(const ModelConfig& config, const ActivationConfig& activations)
      : config_(config),
        micro_batch_(activations.micro_batch),
        max_rows_(micro_batch_ * config.context),
        embedded_("shardmark::gpt::residual", max_rows_, config.width),
        final_statistics_(max_rows_),
        normed_("shardmark::gpt::normed", max_rows_, config.width),
        logits_("shardmark::gpt::logits", std::min(max_rows_, activations.head_rows), config.vocab),
        losses_(allocate<double>("shardmark::gpt::losses", std::min(max_rows_, activations.head_rows))),
        d_residual_("shardmark::gpt::residual_gradient", max_rows_, config.width),
        d_narrow_("shardmark::gpt::narrow_gradient", max_rows_, config.width),
        d_wide_(allocate<T>("shardmark::gpt::wide_gradient", max_rows_ * 4 * config.width)),
        scratch_(allocate<Wide<T>>("shardmark::gpt::attention_scratch",
                                   attention_scratch_size<T>(attention(micro_batch_)))) {
    if (!one_buffer) d_logits_.emplace("shardmark::gpt::logits", losses_.extent(0), config.vocab);
    std::shared_ptr<const BlockInside<T>> shared;
    for (std::size_t layer = 0; layer < config.layers; ++layer) {
      const bool recomputed = activations.recompute_every > 0 && layer % activations.recompute_every == 0;
      auto inside = recomputed ? shared : nullptr;
      if (!inside) inside = std::make_shared<BlockInside<T>>(max_rows_, config.width, config.heads);
      if (recomputed) shared = inside;
      blocks_.push_back({inside, recomputed, {"shardmark::gpt::residual", max_rows_, config.width}});
    }
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
    for_each_chunk(batch, [&](std::size_t begin, const Matrix<T>& x, const Matrix<Wide<T>>& logits) {
      head(exec, x, p, logits);
      cross_entropy<Wide<T>>(exec, logits, {tokens(batch), begin}, losses_, loss_sum);
    });
  }

  void loss_and_backward(const Exec& exec, const UnitTensors<const T>& p, const UnitTensors<G>& g,
                         const Batch<T>& batch, const Vector<double>& loss_sum) override {
    for_each_chunk(batch, [&](std::size_t begin, const Matrix<T>& x, const Matrix<Wide<T>>& logits) {
      const Matrix<T> dx = d_narrow_(x.extent(0), begin), d_logits = gradient_of(logits);
      head(exec, x, p, logits);
      cross_entropy_and_gradient<T>(exec, batch.loss_scale, logits, {tokens(batch), begin}, losses_, loss_sum,
                                    d_logits);
      linear_backward<T, G>(exec, d_logits, x, p.matrix(head_weight()), g.matrix(head_weight()), {}, dx,
                            begin == 0 ? batch.into_weights() : Into::add);
    });
  }

  void backward(const Exec& exec, std::size_t stage, const UnitTensors<const T>& p, const UnitTensors<G>& g,
                const Batch<T>& batch) override {
    const std::size_t n = rows(batch);
    if (n == 0) return;
    if (stage == 0) {
      embedding_backward<T, G>(exec, tokens(batch), d_residual_(n), g.matrix(wte), g.matrix(wpe));
    } else if (stage <= blocks_.size()) {
      backward_block(exec, stage - 1, p, g, batch);
    } else {
      layernorm_backward<T, G>(exec, d_narrow_(n), residual(blocks_.size(), n), p.vector(ln_f_weight),
                               final_statistics_, g.vector(ln_f_weight), g.vector(ln_f_bias), d_residual_(n),
                               Into::write);
    }
  }

  Vector<const T> output(std::size_t stage, std::size_t samples) const override {
    const std::size_t n = samples * config_.context, c = config_.width;
    return Vector<const T>((stage <= blocks_.size() ? residual(stage, n) : normed_(n)).data(), n * c);
  }
  Vector<const T> input_gradient(std::size_t stage, std::size_t samples) const override {
    const std::size_t n = samples * config_.context, c = config_.width;
    return Vector<const T>((stage == blocks_.size() + 2 ? d_narrow_(n) : d_residual_(n)).data(), n * c);
  }

 private:
  static constexpr bool one_buffer = std::is_same_v<T, Wide<T>>;

  void forward_block(const Exec& exec, std::size_t layer, const UnitTensors<const T>& p,
                     const Batch<T>& batch) const {
    const std::size_t n = rows(batch);
    const BlockInside<T>& a = *blocks_[layer].inside;
    forward_inside(exec, layer, p, batch);
    linear_forward<T>(exec, a.activated(n), p.matrix(mlp_proj_weight), p.vector(mlp_proj_bias), a.middle(n),
                      blocks_[layer].output(n));
  }

  /// All of a block but its last product.
  void forward_inside(const Exec& exec, std::size_t layer, const UnitTensors<const T>& p,
                      const Batch<T>& batch) const {
    const std::size_t n = rows(batch);
    const BlockInside<T>& a = *blocks_[layer].inside;
    const Matrix<T> input = residual(layer, n);

    layernorm_forward<T>(exec, input, p.vector(ln_1_weight), p.vector(ln_1_bias), a.normed_1(n),
                         a.statistics_1);
    linear_forward<T>(exec, a.normed_1(n), p.matrix(c_attn_weight), p.vector(c_attn_bias), {}, a.qkv(n));
    attention_forward<T>(exec, attention(batch.samples), a.qkv(n), a.attended(n), a.log_sums, scratch_);
    linear_forward<T>(exec, a.attended(n), p.matrix(attn_proj_weight), p.vector(attn_proj_bias), input,
                      a.middle(n));

    layernorm_forward<T>(exec, a.middle(n), p.vector(ln_2_weight), p.vector(ln_2_bias), a.normed_2(n),
                         a.statistics_2);
    linear_forward<T>(exec, a.normed_2(n), p.matrix(c_fc_weight), {}, {}, a.slope(n));
    gelu_forward<T>(exec, p.vector(c_fc_bias), a.slope(n), a.activated(n));
  }

  /// d_residual_ comes in as the gradient of the block's output and leaves as that of its input.
  void backward_block(const Exec& exec, std::size_t layer, const UnitTensors<const T>& p,
                      const UnitTensors<G>& g, const Batch<T>& batch) const {
    const std::size_t n = rows(batch), c = config_.width;
    if (blocks_[layer].recomputed) forward_inside(exec, layer, p, batch);
    const BlockInside<T>& a = *blocks_[layer].inside;
    const Matrix<T> d_residual = d_residual_(n), d_narrow = d_narrow_(n);
    const Into into = batch.into_weights();
    const Matrix<T> d_hidden = as_matrix<T>(d_wide_, n, 4 * c), d_qkv = as_matrix<T>(d_wide_, n, 3 * c);

    linear_backward<T, G>(exec, d_residual, a.activated(n), p.matrix(mlp_proj_weight),
                          g.matrix(mlp_proj_weight), g.vector(mlp_proj_bias), d_hidden, into);
    gelu_backward<T>(exec, a.slope(n), d_hidden);
    linear_backward<T, G>(exec, d_hidden, a.normed_2(n), p.matrix(c_fc_weight), g.matrix(c_fc_weight),
                          g.vector(c_fc_bias), d_narrow, into);
    layernorm_backward<T, G>(exec, d_narrow, a.middle(n), p.vector(ln_2_weight), a.statistics_2,
                             g.vector(ln_2_weight), g.vector(ln_2_bias), d_residual, Into::add);

    linear_backward<T, G>(exec, d_residual, a.attended(n), p.matrix(attn_proj_weight),
                          g.matrix(attn_proj_weight), g.vector(attn_proj_bias), d_narrow, into);
    attention_backward<T>(exec, attention(batch.samples), d_narrow, a.qkv(n), a.attended(n), a.log_sums,
                          d_qkv, scratch_);
    linear_backward<T, G>(exec, d_qkv, a.normed_1(n), p.matrix(c_attn_weight), g.matrix(c_attn_weight),
                          g.vector(c_attn_bias), d_narrow, into);
    layernorm_backward<T, G>(exec, d_narrow, residual(layer, n), p.vector(ln_1_weight), a.statistics_1,
                             g.vector(ln_1_weight), g.vector(ln_1_bias), d_residual, Into::add);
  }

  void head(const Exec& exec, const Matrix<T>& x, const UnitTensors<const T>& p,
            const Matrix<Wide<T>>& logits) const {
    gemm<T, Wide<T>>(exec, Op::none, Op::transpose, 1, x, p.matrix(head_weight()), 0, logits);
  }
  /// Where the gradient of a piece of logits goes: over them where they have the same type.
  Matrix<T> gradient_of(const Matrix<Wide<T>>& logits) const {
    if constexpr (one_buffer)
      return logits;
    else
      return (*d_logits_)(logits.extent(0));
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
  Activation<T> embedded_;        // (N, C)
  std::vector<Block<T>> blocks_;  // L of them
  SavedStatistics<T> final_statistics_;
  Activation<T> normed_;                   // (N, C), after ln_f
  Activation<Wide<T>> logits_;             // (head_rows, V)
  std::optional<Activation<T>> d_logits_;  // their gradient, where it has another type
  OwnedVector<double> losses_;             // (head_rows)
  Activation<T> d_residual_;               // (N, C), gradient of the residual stream
  Activation<T> d_narrow_;                 // (N, C), gradient of a branch's (N, C) activation
  OwnedVector<T> d_wide_;                  // (N, 4C), gradient of hidden and of qkv
  OwnedVector<Wide<T>> scratch_;           // of attention
};

}  // namespace

template <class T, class G>
std::unique_ptr<Model<T, G>> make_gpt(const ModelConfig& config, const ActivationConfig& activations) {
  return std::make_unique<Gpt<T, G>>(config, activations);
}

#define SHARDMARK_INSTANTIATE(T, G) \
  template std::unique_ptr<Model<T, G>> make_gpt(const ModelConfig&, const ActivationConfig&);
SHARDMARK_FOR_PRECISIONS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
