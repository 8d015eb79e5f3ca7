// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/attention_tiles.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "layers/strips.hpp"

#ifdef SHARDMARK_HAS_STRIPS

namespace shardmark {
namespace {

using namespace strips;

constexpr std::size_t tile = panel;  // rows and keys of a square
constexpr std::size_t widest_head = 256;
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// A matrix of one head: its first element, and how far rows are apart.
template <class T>
struct Rows {
  T* data;
  std::size_t row;
  T* operator[](std::size_t token) const { return data + token * row; }
};

template <class T>
Rows<T> rows_of(const Matrix<T>& matrix, const AttentionShape& shape, std::size_t sample, std::size_t head,
                std::size_t block = 0) {
  const std::size_t row = matrix.extent(1);
  return {
      matrix.data() + sample * shape.tokens * row + block * shape.width + head * (shape.width / shape.heads),
      row};
}

/// Rows in float of one head after the other, in place of the 16-bit ones of its matrices.
class WideRows {
 public:
  WideRows(const AttentionShape& shape, float* room)
      : tokens_(shape.tokens), width_(shape.width / shape.heads), room_(room) {}

  template <class T>
  Rows<const float> copy(const Rows<const T>& from) {
    if constexpr (std::is_same_v<T, float>) {
      return from;
    } else {
      const Rows<float> to = next();
      for (std::size_t token = 0; token < tokens_; ++token) std::copy_n(from[token], width_, to[token]);
      return {to.data, to.row};
    }
  }
  /// Where the values of `rows` are to be computed.
  template <class T>
  Rows<float> in_place_of(const Rows<T>& rows) {
    if constexpr (std::is_same_v<T, float>)
      return rows;
    else
      return next();
  }
  template <class T>
  void round(const Rows<float>& from, const Rows<T>& to) const {
    if constexpr (!std::is_same_v<T, float>)
      for (std::size_t token = 0; token < tokens_; ++token) std::copy_n(from[token], width_, to[token]);
  }

 private:
  Rows<float> next() {
    float* rows = room_;
    room_ += tokens_ * width_;
    return {rows, width_};
  }
  std::size_t tokens_, width_;
  float* room_;
};

/// Query rows from `first` against keys from `key`. On the diagonal row r sees keys up to its own.
struct Square {
  std::size_t first, rows, key, keys, width;

  bool diagonal() const { return key == first; }
  std::size_t vectors() const { return (rows + lanes - 1) / lanes; }
  /// The first vector of rows in which one sees key i of the square.
  std::size_t first_vector(std::size_t i) const { return diagonal() ? i / lanes : 0; }
};

/// Calls f(Square) for the keys that the rows from `first` see, in order.
template <class Function>
void for_each_square(const AttentionShape& shape, std::size_t first, const Function& f) {
  const std::size_t rows = std::min(tile, shape.tokens - first);
  for (std::size_t key = 0; key <= first; key += tile)
    f(Square{first, rows, key, key == first ? rows : tile, shape.width / shape.heads});
}

/// Tiles of scores and of their gradients (keys, rows), and of Q and dout (C / H, rows).
struct Scratch {
  float *scores, *gradients, *q, *d, *end;

  Scratch(const AttentionShape& shape, float* data)
      : scores(data),
        gradients(scores + tile * tile),
        q(gradients + tile * tile),
        d(q + tile * (shape.width / shape.heads)),
        end(d + tile * (shape.width / shape.heads)) {}
};

/// to (keys, rows) = k times the transposed rows.
void multiply_rows(const Square& square, const Rows<const float>& k, const float* transposed, float* to) {
  multiply({square.keys, square.vectors() * lanes, square.width, 1, k[square.key], k.row, 1, transposed, tile,
            0, to, tile},
           square.diagonal() ? Part::columns_from : Part::all);
}

/// to (rows, C / H) = factor times the transpose of weights (keys, rows) times v, and what is there, but for
/// the first keys.
void add_to_rows(const Square& square, float factor, const float* weights, const Rows<const float>& v,
                 const Rows<float>& to) {
  multiply({square.rows, square.width, square.keys, factor, weights, 1, tile, v[square.key], v.row,
            square.key == 0 ? 0.0f : 1.0f, to[square.first], to.row},
           square.diagonal() ? Part::terms_to : Part::all);
}

/// to (keys, C / H) = factor times weights (keys, rows) times x, and what is there, but for the last rows,
/// which come first.
void add_to_keys(const Square& square, bool last_rows, float factor, const float* weights,
                 const Rows<const float>& x, const Rows<float>& to) {
  multiply({square.keys, square.width, square.rows, factor, weights, tile, 1, x[square.first], x.row,
            last_rows ? 0.0f : 1.0f, to[square.key], to.row},
           square.diagonal() ? Part::terms_from : Part::all);
}

/// Zeros for the rows before the first vector that sees key i: Part::terms_to may look there.
void clear_hidden(const Square& square, std::size_t i, float* row) {
  for (std::size_t v = 0; v < square.first_vector(i); ++v) store(Lanes{}, row + v * lanes);
}

/// On the diagonal, scores that a row does not see, in vectors of which some do, become -infinity.
void hide(const Square& square, float* scores) {
  if (!square.diagonal()) return;
  for (std::size_t i = 0; i < square.keys; ++i) {
    float* own = scores + i * tile + i / lanes * lanes;
    store(from_lane(i % lanes, load(own), all(minus_infinity)), own);
  }
}

/// The softmax of a tile of rows as far as its keys have come.
struct RunningSoftmax {
  Lanes largest[strip_vectors], sum[strip_vectors];

  RunningSoftmax() {
    std::fill_n(largest, strip_vectors, all(minus_infinity));
    std::fill_n(sum, strip_vectors, Lanes{});
  }

  /// Scores become their share of the sum, which is not known yet: e^(score - largest). `factors` (rows) are
  /// what earlier shares are to be multiplied by.
  void take(const Square& square, float* scores, float* factors) {
    const std::size_t vectors = square.vectors();
    Lanes most[strip_vectors], shares[strip_vectors] = {};
    std::copy_n(largest, strip_vectors, most);
    for (std::size_t i = 0; i < square.keys; ++i)
      for (std::size_t v = square.first_vector(i); v < vectors; ++v)
        most[v] = max(load(scores + i * tile + v * lanes), most[v]);
    for (std::size_t i = 0; i < square.keys; ++i) {
      float* row = scores + i * tile;
      clear_hidden(square, i, row);
      for (std::size_t v = square.first_vector(i); v < vectors; ++v) {
        const Lanes share = exp(load(row + v * lanes) - most[v]);
        shares[v] += share;
        store(share, row + v * lanes);
      }
    }
    for (std::size_t v = 0; v < vectors; ++v) {
      const Lanes factor = exp(largest[v] - most[v]);
      store(factor, factors + v * lanes);
      sum[v] = factor * sum[v] + shares[v];
      largest[v] = most[v];
    }
  }
};

void scale_rows(const Square& square, const float* factors, const Rows<float>& out) {
  for (std::size_t r = 0; r < square.rows; ++r) {
    if (factors[r] == 1) continue;
    float* row = out[square.first + r];
    for (std::size_t i = 0; i < square.width; ++i) row[i] *= factors[r];
  }
}

/// Scores become probabilities p, and gradients of these those of the scores: p (dp - mean).
void softmax_backward(const Square& square, const float* log_sums, const float* means, float* scores,
                      float* gradients) {
  for (std::size_t i = 0; i < square.keys; ++i) {
    float *row = scores + i * tile, *gradient = gradients + i * tile;
    clear_hidden(square, i, row);
    clear_hidden(square, i, gradient);
    for (std::size_t r = square.first_vector(i) * lanes; r < square.vectors() * lanes; r += lanes) {
      const Lanes p = exp(load(row + r) - load(log_sums + r));
      store(p, row + r);
      store(p * (load(gradient + r) - load(means + r)), gradient + r);
    }
  }
}

float score_scale(const AttentionShape& shape) {
  return 1 / std::sqrt(static_cast<float>(shape.width / shape.heads));
}

/// The first row of the last tile.
std::size_t last_tile(const AttentionShape& shape) {
  return (shape.tokens - 1) / tile * tile;
}

void forward_head(const AttentionShape& shape, const Rows<const float>& q, const Rows<const float>& k,
                  const Rows<const float>& v, const Rows<float>& out, float* log_sums, const Scratch& at) {
  const std::size_t width = shape.width / shape.heads;
  for (std::size_t first = 0; first < shape.tokens; first += tile) {
    const std::size_t rows = std::min(tile, shape.tokens - first);
    RunningSoftmax softmax;
    float factors[tile];
    transpose(rows, width, q[first], q.row, score_scale(shape), at.q);
    for_each_square(shape, first, [&](const Square& square) {
      multiply_rows(square, k, at.q, at.scores);
      hide(square, at.scores);
      softmax.take(square, at.scores, factors);
      if (square.key > 0) scale_rows(square, factors, out);
      add_to_rows(square, 1, at.scores, v, out);
    });
    for (std::size_t r = 0; r < rows; ++r) {
      const float sum = softmax.sum[r / lanes][r % lanes], factor = 1 / sum;
      log_sums[first + r] = softmax.largest[r / lanes][r % lanes] + std::log(sum);
      float* row = out[first + r];
      for (std::size_t i = 0; i < width; ++i) row[i] *= factor;
    }
  }
}

/// What backward_head() reads and writes.
struct HeadGradients {
  Rows<const float> q, k, v, out, d;
  Rows<float> dq, dk, dv;
};

void backward_head(const AttentionShape& shape, const HeadGradients& head, const float* log_sums,
                   const Scratch& at) {
  const std::size_t width = shape.width / shape.heads;
  const float scale = score_scale(shape);
  for (std::size_t first = last_tile(shape) + tile; first > 0;) {
    first -= tile;
    const std::size_t rows = std::min(tile, shape.tokens - first);
    float means[tile] = {}, row_log_sums[tile] = {};
    std::copy_n(log_sums + first, rows, row_log_sums);
    for (std::size_t r = 0; r < rows; ++r)
      means[r] = inner_product(width, head.d[first + r], head.out[first + r]);
    transpose(rows, width, head.q[first], head.q.row, scale, at.q);
    transpose(rows, width, head.d[first], head.d.row, 1, at.d);
    const bool last = first == last_tile(shape);
    for_each_square(shape, first, [&](const Square& square) {
      multiply_rows(square, head.k, at.q, at.scores);
      hide(square, at.scores);
      multiply_rows(square, head.v, at.d, at.gradients);
      softmax_backward(square, row_log_sums, means, at.scores, at.gradients);
      add_to_rows(square, scale, at.gradients, head.k, head.dq);
      add_to_keys(square, last, scale, at.gradients, head.q, head.dk);
      add_to_keys(square, last, 1, at.scores, head.d, head.dv);
    });
  }
}

/// Calls f(sample, head) for all of them, as a region of Kokkos Tools.
template <class Function>
void for_each_head(const std::string& label, const AttentionShape& shape, const Function& f) {
  Kokkos::Profiling::pushRegion(label);
  for (std::size_t sample = 0; sample < shape.samples; ++sample)
    for (std::size_t head = 0; head < shape.heads; ++head) f(sample, head);
  Kokkos::Profiling::popRegion();
}

}  // namespace

bool attention_has_tiles(const AttentionShape& shape) {
  return Exec().concurrency() == 1 && shape.width / shape.heads <= widest_head;
}

template <class T>
std::size_t tiled_attention_scratch_size(const AttentionShape& shape) {
  const std::size_t head = shape.width / shape.heads, copies = std::is_same_v<T, float> ? 0 : 8;
  return 2 * tile * (tile + head) + copies * shape.tokens * head;
}

template <class T>
void tiled_attention_forward(const AttentionShape& shape, const Matrix<const T>& qkv, const Matrix<T>& out,
                             const Vector<float>& log_sums, const Vector<float>& scratch) {
  static const std::string label = "shardmark::attention_tiles::forward";
  const Scratch at(shape, scratch.data());
  for_each_head(label, shape, [&](std::size_t sample, std::size_t head) {
    WideRows wide(shape, at.end);
    const auto part = [&](std::size_t block) { return wide.copy(rows_of(qkv, shape, sample, head, block)); };
    const auto result = rows_of(out, shape, sample, head);
    const Rows<const float> q = part(0), k = part(1), v = part(2);
    const Rows<float> sums = wide.in_place_of(result);
    forward_head(shape, q, k, v, sums, log_sums.data() + (sample * shape.heads + head) * shape.tokens, at);
    wide.round(sums, result);
  });
}

template <class T>
void tiled_attention_backward(const AttentionShape& shape, const Matrix<const T>& dout,
                              const Matrix<const T>& qkv, const Matrix<const T>& out,
                              const Vector<const float>& log_sums, const Matrix<T>& dqkv,
                              const Vector<float>& scratch) {
  static const std::string label = "shardmark::attention_tiles::backward";
  const Scratch at(shape, scratch.data());
  for_each_head(label, shape, [&](std::size_t sample, std::size_t head) {
    WideRows wide(shape, at.end);
    const auto part = [&](const Matrix<const T>& matrix, std::size_t block = 0) {
      return wide.copy(rows_of(matrix, shape, sample, head, block));
    };
    const auto result = [&](std::size_t block) { return rows_of(dqkv, shape, sample, head, block); };
    const HeadGradients of_head{part(qkv, 0),
                                part(qkv, 1),
                                part(qkv, 2),
                                part(out),
                                part(dout),
                                wide.in_place_of(result(0)),
                                wide.in_place_of(result(1)),
                                wide.in_place_of(result(2))};
    backward_head(shape, of_head, log_sums.data() + (sample * shape.heads + head) * shape.tokens, at);
    wide.round(of_head.dq, result(0));
    wide.round(of_head.dk, result(1));
    wide.round(of_head.dv, result(2));
  });
}

void tiled_attention_product(bool transposed, std::size_t m, std::size_t n, std::size_t k, const float* a,
                             const float* b, float* c) {
  multiply({m, n, k, 1, a, transposed ? 1 : k, transposed ? m : 1, b, n, 0, c, n});
}

}  // namespace shardmark

#else

namespace shardmark {

bool attention_has_tiles(const AttentionShape&) {
  return false;
}
template <class T>
std::size_t tiled_attention_scratch_size(const AttentionShape&) {
  return 0;
}
template <class T>
void tiled_attention_forward(const AttentionShape&, const Matrix<const T>&, const Matrix<T>&,
                             const Vector<float>&, const Vector<float>&) {
  throw std::logic_error("attention in tiles: this build has none");
}
template <class T>
void tiled_attention_backward(const AttentionShape&, const Matrix<const T>&, const Matrix<const T>&,
                              const Matrix<const T>&, const Vector<const float>&, const Matrix<T>&,
                              const Vector<float>&) {
  throw std::logic_error("attention in tiles: this build has none");
}
void tiled_attention_product(bool, std::size_t, std::size_t, std::size_t, const float*, const float*,
                             float*) {
  throw std::logic_error("attention in tiles: this build has none");
}

}  // namespace shardmark
#endif

namespace shardmark {

#define SHARDMARK_INSTANTIATE(T)                                                                            \
  template std::size_t tiled_attention_scratch_size<T>(const AttentionShape&);                              \
  template void tiled_attention_forward<T>(const AttentionShape&, const Matrix<const T>&, const Matrix<T>&, \
                                           const Vector<float>&, const Vector<float>&);                     \
  template void tiled_attention_backward<T>(                                                                \
      const AttentionShape&, const Matrix<const T>&, const Matrix<const T>&, const Matrix<const T>&,        \
      const Vector<const float>&, const Matrix<T>&, const Vector<float>&);
SHARDMARK_INSTANTIATE(float)
SHARDMARK_INSTANTIATE(bf16)
SHARDMARK_INSTANTIATE(fp16)

}  // namespace shardmark
