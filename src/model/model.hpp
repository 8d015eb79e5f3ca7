// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/parameter.hpp"
#include "core/precision.hpp"
#include "core/types.hpp"
#include "core/unit_tensors.hpp"
#include "layers/into.hpp"

namespace shardmark {

/// What is sharded, gathered and reduced as one: a list of parameters.
struct UnitSpec {
  std::string name;
  std::vector<Parameter> parameters;
  bool root = false;  ///< used at both ends of the model, so it stays unsharded for a whole micro-batch
};

/// A step of the forward pass. It uses the parameters of one unit; a unit may have several stages.
struct StageSpec {
  std::string name;
  std::size_t unit;
};

/// All that can be said of a model before it takes memory.
struct ModelSpec {
  std::vector<UnitSpec> units;
  std::vector<StageSpec> stages;  ///< in forward order; the last one is the loss
  /// Loss terms in one sample: T tokens, or the outputs of an MLP. Losses are means over terms.
  std::size_t terms_per_sample = 0;
  /// Model FLOPs of forward and backward for one sample: 6 x weights in matrix products, and attention.
  double flops_per_sample = 0;
};

/// One micro-batch of this rank, on the device.
template <class T>
struct Batch {
  std::size_t samples = 0;            ///< B, at most the micro_batch that the model was made for; may be 0
  Matrix<const std::int32_t> tokens;  ///< (B, T + 1): inputs are columns 0..T-1, targets columns 1..T
  Matrix<const T> features;           ///< (B, sizes.front()), MLP only
  Matrix<const T> responses;          ///< (B, sizes.back()), MLP only
  double loss_scale =
      1;  ///< gradients are those of loss_scale x (sum of the losses): 1 / terms in the global batch
  bool new_gradients = false;  ///< nothing was added to the gradients yet

  /// What the first product of the batch does to a gradient with Parameter::gradient_written.
  Into into_weights() const { return new_gradients ? Into::write : Into::add; }
};

/// A model as a list of stages over units. It owns its activations, never sees a communicator, and never
/// changes parameters. T: parameters and activations, G: gradients of parameters, which are added to what the
/// buffers hold, but for those that new gradients begin with (Parameter::gradient_written).
template <class T, class G = T>
class Model {
 public:
  virtual ~Model() = default;

  /// Stage `stage`, which is not the last: reads the activations of the stage before it.
  virtual void forward(const Exec& exec, std::size_t stage, const UnitTensors<const T>& parameters,
                       const Batch<T>& batch) = 0;

  /// The last stage: adds the sum of the batch's losses to loss_sum(0).
  virtual void loss(const Exec& exec, const UnitTensors<const T>& parameters, const Batch<T>& batch,
                    const Vector<double>& loss_sum) = 0;

  /// The last stage, fused with its own backward.
  virtual void loss_and_backward(const Exec& exec, const UnitTensors<const T>& parameters,
                                 const UnitTensors<G>& gradients, const Batch<T>& batch,
                                 const Vector<double>& loss_sum) = 0;

  /// Stage `stage`, which is not the last, backward: after that of stage + 1.
  virtual void backward(const Exec& exec, std::size_t stage, const UnitTensors<const T>& parameters,
                        const UnitTensors<G>& gradients, const Batch<T>& batch) = 0;

  /// What forward(stage) wrote for `samples` samples, and the gradient that backward(stage) hands on, or
  /// loss_and_backward where stage is the last. Valid until the next call; for diagnosis.
  virtual Vector<const T> output(std::size_t stage, std::size_t samples) const = 0;
  virtual Vector<const T> input_gradient(std::size_t stage, std::size_t samples) const = 0;
};

/// The [model] section. Every key is read whatever the kind.
struct ModelConfig {
  std::string kind;         ///< "gpt" or "mlp"
  std::size_t layers = 0;   ///< L
  std::size_t width = 0;    ///< C
  std::size_t heads = 0;    ///< H
  std::size_t context = 0;  ///< T
  std::size_t vocab = 0;    ///< V
  bool tie_embeddings = true;
  std::vector<std::size_t> sizes;  ///< layer sizes of the MLP, input first
};

/// What decides on the memory of activations.
struct ActivationConfig {
  std::size_t micro_batch = 1;      ///< samples at a time, at least 1
  std::size_t recompute_every = 0;  ///< gpt: every k-th block keeps its input only; 0 = none does
  std::size_t head_rows = 512;      ///< gpt: rows of logits that exist at a time
};

/// Bytes that a model of this config allocates, by formula.
struct ActivationBytes {
  std::uint64_t activations = 0;
  std::uint64_t logits = 0;
};

/// A matrix product of a model: C (m, n) = op(A) op(B), summed over k.
struct ProductShape {
  std::string name;  ///< "c_fc forward", "attention scores", …
  bool transpose_a, transpose_b;
  std::size_t m, n, k;
  double times;          ///< that a full micro-batch needs it, forward and backward
  bool wide = false;     ///< C is of Wide<T>, else of T or G
  bool batched = false;  ///< one of the small ones inside attention

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

/// The products of one full micro-batch, the recomputed ones included.
std::vector<ProductShape> product_shapes(const ModelConfig& config, const ActivationConfig& activations);

/// Units, stages and costs. Throws DeckError where the config makes no sense.
ModelSpec describe_model(const ModelConfig& config);

/// `bytes`: of an element of T; `wide_bytes`: of Wide<T>.
ActivationBytes activation_bytes(const ModelConfig& config, const ActivationConfig& activations,
                                 std::size_t bytes, std::size_t wide_bytes);

/// Makes the model with its activations. Throws DeckError as describe_model does.
template <class T, class G = T>
std::unique_ptr<Model<T, G>> make_model(const ModelConfig& config, const ActivationConfig& activations);

}  // namespace shardmark
