// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "gradient_check.hpp"
#include "layers/attention.hpp"

namespace shardmark {
namespace {

const double nan = std::numeric_limits<double>::quiet_NaN();

/// The definition, token by token.
std::vector<double> direct_attention(const AttentionShape& s, const std::vector<double>& qkv) {
  const std::size_t c = s.width, d = c / s.heads;
  std::vector<double> out(s.samples * s.tokens * c);
  for (std::size_t b = 0; b < s.samples; ++b) {
    for (std::size_t h = 0; h < s.heads; ++h) {
      const auto at = [&](std::size_t t, std::size_t block, std::size_t i) {
        return qkv[(b * s.tokens + t) * 3 * c + block * c + h * d + i];
      };
      for (std::size_t t = 0; t < s.tokens; ++t) {
        std::vector<double> weights(t + 1);
        double sum = 0;
        for (std::size_t u = 0; u <= t; ++u) {
          double score = 0;
          for (std::size_t i = 0; i < d; ++i) score += at(t, 0, i) * at(u, 1, i);
          sum += weights[u] = std::exp(score / std::sqrt(static_cast<double>(d)));
        }
        for (std::size_t i = 0; i < d; ++i) {
          double value = 0;
          for (std::size_t u = 0; u <= t; ++u) value += weights[u] / sum * at(u, 2, i);
          out[(b * s.tokens + t) * c + h * d + i] = value;
        }
      }
    }
  }
  return out;
}

template <class T>
struct AttentionRun {
  AttentionShape shape;
  std::size_t rows = shape.samples * shape.tokens;
  OwnedVector<T> qkv, out = constant_tensor<T>(rows * shape.width, nan);
  OwnedVector<T> log_sums = constant_tensor<T>(rows * shape.heads, nan);
  OwnedVector<T> scratch = constant_tensor<T>(attention_scratch_size<T>(shape), nan);
  OwnedVector<T> dqkv = constant_tensor<T>(rows * 3 * shape.width, nan);

  explicit AttentionRun(const AttentionShape& s)
      : shape(s), qkv(random_tensor<T>("qkv", s.samples * s.tokens * 3 * s.width)) {}

  void forward() {
    const Exec exec;
    attention_forward<T>(exec, shape, as_matrix<T>(qkv, rows, 3 * shape.width),
                         as_matrix<T>(out, rows, shape.width), log_sums, scratch);
    exec.fence();
  }
  std::vector<T> backward(const OwnedVector<T>& dout) {
    const Exec exec;
    attention_backward<T>(exec, shape, as_matrix<T>(dout, rows, shape.width),
                          as_matrix<T>(qkv, rows, 3 * shape.width), log_sums,
                          as_matrix<T>(dqkv, rows, 3 * shape.width), scratch);
    exec.fence();
    return to_host(dqkv);
  }
};

class Attention : public testing::TestWithParam<AttentionShape> {};

TEST_P(Attention, MatchesTheDefinition) {
  AttentionRun<double> run(GetParam());
  run.forward();
  EXPECT_LT(relative_difference(to_host(run.out), direct_attention(GetParam(), to_host(run.qkv))), 1e-13);
}

TEST_P(Attention, FloatAgreesWithDouble) {
  AttentionRun<float> single(GetParam());
  AttentionRun<double> exact(GetParam());
  const std::size_t n = single.rows * GetParam().width;
  single.forward();
  exact.forward();
  EXPECT_LT(relative_difference(to_host(single.out), to_host(exact.out)), 2e-6);
  EXPECT_LT(relative_difference(to_host(single.log_sums), to_host(exact.log_sums)), 2e-6);
  EXPECT_LT(relative_difference(single.backward(random_tensor<float>("dout", n)),
                                exact.backward(random_tensor("dout", n))),
            5e-6);
}

// Lengths of one token, less than a tile, a tile (64 on hosts), and tiles with a rest.
INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(AttentionShape{1, 1, 1, 1}, AttentionShape{2, 5, 3, 12},
                                         AttentionShape{1, 64, 2, 6}, AttentionShape{2, 131, 2, 10},
                                         AttentionShape{0, 5, 3, 12}));

TEST(AttentionGradient, MatchesFiniteDifferences) {
  for (const AttentionShape& shape : {AttentionShape{2, 5, 3, 12}, AttentionShape{1, 67, 1, 2}}) {
    AttentionRun<double> run(shape);
    const auto dout = random_tensor("dout", run.rows * shape.width);
    const auto loss = [&] {
      run.forward();
      return weighted_sum(dout, run.out);
    };
    loss();
    expect_gradient("qkv", run.qkv, run.backward(dout), loss);
  }
}

TEST(AttentionGradient, KeysOfAllTokensTogetherHaveNone) {
  const AttentionShape shape{1, 9, 2, 8};
  AttentionRun<double> run(shape);
  run.forward();
  const auto dqkv = run.backward(random_tensor("dout", 9 * 8));
  for (std::size_t i = 0; i < 8; ++i) {
    double sum = 0;
    for (std::size_t t = 0; t < 9; ++t) sum += dqkv[t * 24 + 8 + i];
    EXPECT_LT(std::abs(sum), 1e-13);
  }
}

}  // namespace
}  // namespace shardmark
