// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "layers/linear.hpp"
#include "layers/mean_squared_error.hpp"
#include "layers/relu.hpp"
#include "model/kinds.hpp"

namespace shardmark {
namespace {

std::size_t widest(const std::vector<std::size_t>& sizes) {
  return *std::max_element(sizes.begin() + 1, sizes.end());
}

/// Linear layer i maps sizes[i] to sizes[i + 1]. Each is a unit and a stage; all but the last end in a relu,
/// the last in the loss.
template <class T, class G>
class Mlp : public Model<T, G> {
 public:
  Mlp(const std::vector<std::size_t>& sizes, std::size_t micro_batch) : sizes_(sizes) {
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
      outputs_.push_back(allocate<T>("shardmark::mlp::output", micro_batch * sizes[i + 1]));
    for (int i = 0; i < 2; ++i)
      gradients_.push_back(allocate<T>("shardmark::mlp::input_gradient", micro_batch * widest(sizes)));
  }

  void forward(const Exec& exec, std::size_t stage, const UnitTensors<const T>& parameters,
               const Batch<T>& batch) override {
    linear(exec, stage, parameters, batch);
    relu_forward<T>(exec, output(stage, batch));
  }

  void loss(const Exec& exec, const UnitTensors<const T>& parameters, const Batch<T>& batch,
            const Vector<double>& loss_sum) override {
    linear(exec, last(), parameters, batch);
    mean_squared_error<T>(exec, output(last(), batch), responses(batch), loss_sum);
  }

  void loss_and_backward(const Exec& exec, const UnitTensors<const T>& parameters,
                         const UnitTensors<G>& gradients, const Batch<T>& batch,
                         const Vector<double>& loss_sum) override {
    linear(exec, last(), parameters, batch);
    const Matrix<T> dy = output(last(), batch);
    mean_squared_error_and_gradient<T>(exec, batch.loss_scale, dy, responses(batch), loss_sum);
    linear_backward<T, G>(exec, dy, input(last(), batch), parameters.matrix(0), gradients.matrix(0),
                          gradients.vector(1), input_gradient(last(), batch), batch.into_weights());
  }

  void backward(const Exec& exec, std::size_t stage, const UnitTensors<const T>& parameters,
                const UnitTensors<G>& gradients, const Batch<T>& batch) override {
    const Matrix<T> dy = input_gradient(stage + 1, batch);
    relu_backward<T>(exec, output(stage, batch), dy);
    linear_backward<T, G>(exec, dy, input(stage, batch), parameters.matrix(0), gradients.matrix(0),
                          gradients.vector(1), input_gradient(stage, batch), batch.into_weights());
  }

  Vector<const T> output(std::size_t stage, std::size_t samples) const override {
    return Vector<const T>(outputs_[stage].data(), samples * sizes_[stage + 1]);
  }
  Vector<const T> input_gradient(std::size_t stage, std::size_t samples) const override {
    return Vector<const T>(gradients_[stage % 2].data(), stage == 0 ? 0 : samples * sizes_[stage]);
  }

 private:
  std::size_t last() const { return outputs_.size() - 1; }
  Matrix<T> output(std::size_t stage, const Batch<T>& batch) const {
    return as_matrix<T>(outputs_[stage], batch.samples, sizes_[stage + 1]);
  }
  Matrix<const T> input(std::size_t stage, const Batch<T>& batch) const {
    if (stage == 0) return as_matrix<const T>(batch.features, batch.samples, sizes_[0]);
    return output(stage - 1, batch);
  }
  Matrix<const T> responses(const Batch<T>& batch) const {
    return as_matrix<const T>(batch.responses, batch.samples, sizes_.back());
  }
  /// Of the input of `stage`; empty for the first, where nobody asks for it.
  Matrix<T> input_gradient(std::size_t stage, const Batch<T>& batch) const {
    if (stage == 0) return {};
    return as_matrix<T>(gradients_[stage % 2], batch.samples, sizes_[stage]);
  }
  void linear(const Exec& exec, std::size_t stage, const UnitTensors<const T>& parameters,
              const Batch<T>& batch) const {
    linear_forward<T>(exec, input(stage, batch), parameters.matrix(0), parameters.vector(1), {},
                      output(stage, batch));
  }

  std::vector<std::size_t> sizes_;         // inputs of the layers, and the outputs of the last
  std::vector<OwnedVector<T>> outputs_;    // of layer i, after its relu: (B, sizes[i + 1])
  std::vector<OwnedVector<T>> gradients_;  // of the input of layer i, at i % 2: (B, sizes[i])
};

}  // namespace

/// Weights are drawn as He et al. 2015 do for relu: standard deviation sqrt(2 / inputs).
ModelSpec describe_mlp(const ModelConfig& config) {
  const std::vector<std::size_t>& sizes = config.sizes;
  ModelSpec spec;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const std::string name = "layers." + std::to_string(i);
    const Init normal{Init::Kind::normal, std::sqrt(2.0 / static_cast<double>(sizes[i]))};
    spec.units.push_back({name,
                          {{name + ".weight", {sizes[i + 1], sizes[i]}, normal, true, true},
                           {name + ".bias", {sizes[i + 1]}, {}, false}}});
    spec.stages.push_back({name, i});
    spec.flops_per_sample += 6.0 * static_cast<double>(sizes[i]) * static_cast<double>(sizes[i + 1]);
  }
  spec.terms_per_sample = sizes.back();
  return spec;
}

/// A sample: the outputs of every layer, and two gradients of the widest.
ActivationBytes mlp_activation_bytes(const ModelConfig& config, const ActivationConfig& activations,
                                     std::size_t bytes, std::size_t) {
  std::uint64_t width = 2 * widest(config.sizes);
  for (std::size_t i = 1; i < config.sizes.size(); ++i) width += config.sizes[i];
  return {activations.micro_batch * width * bytes, 0};
}

std::vector<ProductShape> mlp_products(const ModelConfig& config, const ActivationConfig& activations) {
  std::vector<ProductShape> products;
  for (std::size_t i = 0; i + 1 < config.sizes.size(); ++i)
    for (ProductShape& product : linear_products("layers." + std::to_string(i), activations.micro_batch,
                                                 config.sizes[i], config.sizes[i + 1], 1, 1, i > 0))
      products.push_back(std::move(product));
  return products;
}

template <class T, class G>
std::unique_ptr<Model<T, G>> make_mlp(const ModelConfig& config, const ActivationConfig& activations) {
  return std::make_unique<Mlp<T, G>>(config.sizes, activations.micro_batch);
}

#define SHARDMARK_INSTANTIATE(T, G) \
  template std::unique_ptr<Model<T, G>> make_mlp(const ModelConfig&, const ActivationConfig&);
SHARDMARK_FOR_PRECISIONS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
