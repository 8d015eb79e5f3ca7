// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/dataset.hpp"

namespace shardmark {

// One maker a kind of source, each in its own file; make_dataset lists them.
std::unique_ptr<Dataset> make_bytes(const DataConfig& config, const SampleShape& shape, std::uint64_t seed);
std::unique_ptr<Dataset> make_tokens(const DataConfig& config, const SampleShape& shape, std::uint64_t seed);
std::unique_ptr<Dataset> make_markov(const DataConfig& config, const SampleShape& shape, std::uint64_t seed);
std::unique_ptr<Dataset> make_teacher(const DataConfig& config, const SampleShape& shape, std::uint64_t seed);

/// Throws std::out_of_range for a validation index that is not below the split's samples.
void check_validation_index(std::uint64_t index, std::uint64_t samples);

}  // namespace shardmark
