// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "model/model.hpp"

namespace shardmark {

// What make_model() chooses from; the keys that a kind needs were checked before.

/// GPT-2: A. Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
template <class T>
std::unique_ptr<Model<T>> make_gpt(const ModelConfig& config, std::size_t micro_batch);

/// Linear layers with a relu between, and the mean squared error.
template <class T>
std::unique_ptr<Model<T>> make_mlp(const ModelConfig& config, std::size_t micro_batch);

}  // namespace shardmark
