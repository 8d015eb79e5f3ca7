// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/parameter.hpp"
#include "core/types.hpp"
#include "core/unit_tensors.hpp"

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

/// One micro-batch of this rank, on the device.
template <class T>
struct Batch {
  std::size_t samples = 0;            ///< B, at most the micro_batch that the model was made for; may be 0
  Matrix<const std::int32_t> tokens;  ///< (B, T + 1): inputs are columns 0..T-1, targets columns 1..T
  Matrix<const T> features;           ///< (B, sizes.front()), MLP only
  Matrix<const T> responses;          ///< (B, sizes.back()), MLP only
  double loss_scale =
      1;  ///< gradients are those of loss_scale x (sum of the losses): 1 / terms in the global batch
};

/// A model as a list of stages over units. It owns its activations, never sees a communicator, and never
/// changes parameters. Gradients are added to what the buffers hold.
template <class T>
class Model {
 public:
  virtual ~Model() = default;

  const std::vector<UnitSpec>& units() const { return units_; }
  /// In forward order. The last one is the loss.
  const std::vector<StageSpec>& stages() const { return stages_; }
  /// Loss terms in one sample: T tokens, or the outputs of an MLP. Losses are means over terms.
  virtual std::size_t terms_per_sample() const = 0;
  /// Model FLOPs of forward and backward for one sample: 6 x weights in matrix products, and attention.
  virtual double flops_per_sample() const = 0;

  /// Stage `stage`, which is not the last: reads the activations of the stage before it.
  virtual void forward(const Exec& exec, std::size_t stage, const UnitTensors<const T>& parameters,
                       const Batch<T>& batch) = 0;

  /// The last stage: adds the sum of the batch's losses to loss_sum(0).
  virtual void loss(const Exec& exec, const UnitTensors<const T>& parameters, const Batch<T>& batch,
                    const Vector<double>& loss_sum) = 0;

  /// The last stage, fused with its own backward.
  virtual void loss_and_backward(const Exec& exec, const UnitTensors<const T>& parameters,
                                 const UnitTensors<T>& gradients, const Batch<T>& batch,
                                 const Vector<double>& loss_sum) = 0;

  /// Stage `stage`, which is not the last, backward: after that of stage + 1.
  virtual void backward(const Exec& exec, std::size_t stage, const UnitTensors<const T>& parameters,
                        const UnitTensors<T>& gradients, const Batch<T>& batch) = 0;

 protected:
  std::vector<UnitSpec> units_;
  std::vector<StageSpec> stages_;
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

/// Makes the model with activations for `micro_batch` samples (at least 1).
template <class T>
std::unique_ptr<Model<T>> make_model(const ModelConfig& config, std::size_t micro_batch);

}  // namespace shardmark
