// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shardmark {

/// How the first weights are drawn.
struct Init {
  enum class Kind { zeros, ones, normal } kind = Kind::zeros;
  double standard_deviation = 0;  ///< of Kind::normal, mean 0
};

/// One named tensor of a model, row-major, at most two dimensions.
struct Parameter {
  std::string name;                ///< as in PyTorch, e.g. "transformer.h.0.attn.c_attn.weight"
  std::vector<std::size_t> shape;  ///< e.g. (3C, C)
  Init init;
  bool decay = false;  ///< weight decay applies (matrices; not biases and norms)
  /// The first product of a micro-batch whose gradients are new writes the gradient; else it is added to.
  bool gradient_written = false;

  std::size_t size() const {
    std::size_t n = 1;
    for (std::size_t extent : shape) n *= extent;
    return n;
  }
};

}  // namespace shardmark
