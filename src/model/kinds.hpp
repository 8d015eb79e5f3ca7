// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "model/model.hpp"

namespace shardmark {

// What make_model() and describe_model() choose from; the keys that a kind needs were checked before.

/// GPT-2: A. Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
/// The three products of a linear layer on n rows: y = x W^T, dW = dy^T x, and dx = dy W unless it is the
/// first of an MLP.
std::vector<ProductShape> linear_products(const std::string& name, std::size_t n, std::size_t inputs,
                                          std::size_t outputs, double forward, double backward,
                                          bool with_input_gradient = true);

ModelSpec describe_gpt(const ModelConfig& config);
ActivationBytes gpt_activation_bytes(const ModelConfig& config, const ActivationConfig& activations,
                                     std::size_t bytes, std::size_t wide_bytes);
std::vector<ProductShape> gpt_products(const ModelConfig& config, const ActivationConfig& activations);
template <class T, class G>
std::unique_ptr<Model<T, G>> make_gpt(const ModelConfig& config, const ActivationConfig& activations);

/// Linear layers with a relu between, and the mean squared error.
ModelSpec describe_mlp(const ModelConfig& config);
ActivationBytes mlp_activation_bytes(const ModelConfig& config, const ActivationConfig& activations,
                                     std::size_t bytes, std::size_t wide_bytes);
std::vector<ProductShape> mlp_products(const ModelConfig& config, const ActivationConfig& activations);
template <class T, class G>
std::unique_ptr<Model<T, G>> make_mlp(const ModelConfig& config, const ActivationConfig& activations);

}  // namespace shardmark
