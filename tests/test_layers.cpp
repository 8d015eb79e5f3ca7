// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "gradient_check.hpp"
#include "layers/cross_entropy.hpp"
#include "layers/embedding.hpp"
#include "layers/gelu.hpp"
#include "layers/gemm.hpp"
#include "layers/layernorm.hpp"
#include "layers/linear.hpp"
#include "layers/mean_squared_error.hpp"
#include "layers/relu.hpp"

namespace shardmark {
namespace {

const double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Gemm, MatchesTheDefinitionInAllFourForms) {
  const Exec exec;
  const std::size_t m = 3, n = 5, k = 7;
  for (const Op op_a : {Op::none, Op::transpose}) {
    for (const Op op_b : {Op::none, Op::transpose}) {
      const auto a = random_values("a", m * k), b = random_values("b", k * n), c = random_values("c", m * n);
      const auto a_view = to_device(a), b_view = to_device(b), c_view = to_device(c), d_view = to_device(c);
      const auto at = [&](std::size_t i, std::size_t j) {
        return a[op_a == Op::none ? i * k + j : j * m + i];
      };
      const auto bt = [&](std::size_t i, std::size_t j) {
        return b[op_b == Op::none ? i * n + j : j * k + i];
      };
      std::vector<double> expected(m * n);
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::size_t l = 0; l < k; ++l) sum += at(i, l) * bt(l, j);
          expected[i * n + j] = 1.5 * sum - 0.5 * c[i * n + j];
        }
      }
      const auto a_matrix =
          op_a == Op::none ? as_matrix<double>(a_view, m, k) : as_matrix<double>(a_view, k, m);
      const auto b_matrix =
          op_b == Op::none ? as_matrix<double>(b_view, k, n) : as_matrix<double>(b_view, n, k);
      gemm<double>(exec, op_a, op_b, 1.5, a_matrix, b_matrix, -0.5, as_matrix<double>(c_view, m, n));
      gemm_batched<double>(exec, op_a, op_b, m, n, k, 1.5, {a_view.data(), a_matrix.extent(1), 0},
                           {b_view.data(), b_matrix.extent(1), 0}, -0.5, {d_view.data(), n, 0}, 1);
      exec.fence();
      EXPECT_LT(relative_difference(to_host(c_view), expected), 1e-14);
      EXPECT_LT(relative_difference(to_host(d_view), expected), 1e-14);
    }
  }
}

// Two (2, 3) matrices side by side in a (2, 6) array, times their own transposes.
TEST(Gemm, BatchWalksThroughAStridedArray) {
  const Exec exec;
  const auto a = to_device(std::vector<double>{1, 2, 3, 10, 20, 30, 4, 5, 6, 40, 50, 60});
  const auto c = constant_tensor(8, nan);
  gemm_batched<double>(exec, Op::none, Op::transpose, 2, 2, 3, 1, {a.data(), 6, 3}, {a.data(), 6, 3}, 0,
                       {c.data(), 2, 4}, 2);
  exec.fence();
  EXPECT_EQ(to_host(c), (std::vector<double>{14, 32, 32, 77, 1400, 3200, 3200, 7700}));
}

TEST(Gemm, WithoutInnerExtentScalesTheResult) {
  const Exec exec;
  const auto c = random_tensor("c", 6);
  const auto expected = to_host(c);
  gemm<double>(exec, Op::none, Op::none, 1, Matrix<double>(nullptr, 2, 0), Matrix<double>(nullptr, 0, 3), 0.5,
               as_matrix<double>(c, 2, 3));
  exec.fence();
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(to_host(c)[i], 0.5 * expected[i]);

  const auto d = constant_tensor(6, nan);
  gemm<double>(exec, Op::none, Op::none, 1, Matrix<double>(nullptr, 2, 0), Matrix<double>(nullptr, 0, 3), 0,
               as_matrix<double>(d, 2, 3));
  exec.fence();
  for (const double value : to_host(d)) EXPECT_EQ(value, 0);
}

TEST(Gemm, CounterCountsTwoOperationsAnElement) {
  const Exec exec;
  gemm_counter() = {};
  const auto a = random_tensor("a", 6), c = random_tensor("c", 4);
  gemm<double>(exec, Op::none, Op::transpose, 1, as_matrix<double>(a, 2, 3), as_matrix<double>(a, 2, 3), 0,
               as_matrix<double>(c, 2, 2));
  exec.fence();
  EXPECT_EQ(gemm_counter().calls, 1u);
  EXPECT_EQ(gemm_counter().flops, 2.0 * 2 * 2 * 3);
}

TEST(Linear, GradientsMatchFiniteDifferencesAndAdd) {
  const Exec exec;
  const std::size_t n = 5, in = 7, out = 3;
  const auto x = random_tensor("x", n * in), w = random_tensor("w", out * in), b = random_tensor("b", out);
  const auto residual = random_tensor("residual", n * out), y = constant_tensor(n * out, nan);
  const auto dy = random_tensor("dy", n * out);
  const auto dw = constant_tensor(out * in, nan), db = constant_tensor(out, 0),
             dx = constant_tensor(n * in, nan);
  const auto loss = [&] {
    linear_forward<double>(exec, as_matrix<double>(x, n, in), as_matrix<double>(w, out, in), b,
                           as_matrix<double>(residual, n, out), as_matrix<double>(y, n, out));
    exec.fence();
    return weighted_sum(dy, y);
  };
  const auto backward = [&](Into into) {
    linear_backward<double, double>(exec, as_matrix<double>(dy, n, out), as_matrix<double>(x, n, in),
                                    as_matrix<double>(w, out, in), as_matrix<double>(dw, out, in), db,
                                    as_matrix<double>(dx, n, in), into);
    exec.fence();
  };
  backward(Into::write);
  const auto dw_once = to_host(dw), db_once = to_host(db), dx_once = to_host(dx);
  expect_gradient("x", x, dx_once, loss);
  expect_gradient("w", w, dw_once, loss);
  expect_gradient("b", b, db_once, loss);
  expect_gradient("residual", residual, to_host(dy), loss);

  backward(Into::add);
  for (std::size_t i = 0; i < out * in; ++i) EXPECT_NEAR(to_host(dw)[i], 2 * dw_once[i], 1e-13);
  for (std::size_t i = 0; i < out; ++i) EXPECT_NEAR(to_host(db)[i], 2 * db_once[i], 1e-13);
  for (std::size_t i = 0; i < n * in; ++i) EXPECT_EQ(to_host(dx)[i], dx_once[i]);
}

// More columns than a team takes at once, and more rows than groups of threads.
TEST(Linear, BiasGradientIsTheColumnSum) {
  const Exec exec;
  const std::size_t n = 70, in = 1, out = 131;
  const auto x = constant_tensor(n, 1), w = constant_tensor(out, 1), dy = random_tensor("dy", n * out);
  const auto dw = constant_tensor(out, 0), db = constant_tensor(out, 10);
  linear_backward<double, double>(exec, as_matrix<double>(dy, n, out), as_matrix<double>(x, n, in),
                                  as_matrix<double>(w, out, in), as_matrix<double>(dw, out, in), db, {},
                                  Into::add);
  exec.fence();
  const auto values = to_host(dy), sums = to_host(db), products = to_host(dw);
  for (std::size_t column = 0; column < out; ++column) {
    double sum = 0;
    for (std::size_t row = 0; row < n; ++row) sum += values[row * out + column];
    EXPECT_NEAR(sums[column], 10 + sum, 1e-12);
    EXPECT_NEAR(products[column], sum, 1e-12);
  }
}

TEST(Gelu, MatchesTheTanhFormAndItsDerivative) {
  const Exec exec;
  const std::size_t n = 3, c = 7;
  const auto x = random_tensor("x", n * c, 2), bias = random_tensor("bias", c),
             y = constant_tensor(n * c, nan), dy = random_tensor("dy", n * c);
  auto biased = to_device(to_host(x));
  const auto loss = [&] {
    Kokkos::deep_copy(biased, x);
    gelu_forward<double>(exec, bias, as_matrix<double>(biased, n, c), as_matrix<double>(y, n, c));
    exec.fence();
    return weighted_sum(dy, y);
  };
  loss();
  const auto in = to_host(x), shift = to_host(bias), out = to_host(y), slope = to_host(biased);
  for (std::size_t i = 0; i < n * c; ++i) {
    const double v = in[i] + shift[i % c], root = std::sqrt(2 / std::acos(-1.0));
    const double t = std::tanh(root * (v + 0.044715 * v * v * v));
    EXPECT_NEAR(out[i], 0.5 * v * (1 + t), 1e-14);
    const double du = root * (1 + 3 * 0.044715 * v * v);
    EXPECT_NEAR(slope[i], 0.5 * (1 + t) + 0.5 * v * (1 - t * t) * du, 1e-14);
  }
  const auto dx = to_device(to_host(dy));
  gelu_backward<double>(exec, as_matrix<double>(biased, n, c), as_matrix<double>(dx, n, c));
  exec.fence();
  expect_gradient("x", x, to_host(dx), loss);
}

TEST(Gelu, StaysFiniteFarFromZero) {
  const Exec exec;
  const auto x = to_device(std::vector<float>{-1e4f, -30, 0, 30, 1e4f}), y = constant_tensor<float>(5, nan);
  const auto dy = constant_tensor<float>(5, 1);
  gelu_forward<float>(exec, constant_tensor<float>(5, 0), as_matrix<float>(x, 1, 5),
                      as_matrix<float>(y, 1, 5));
  gelu_backward<float>(exec, as_matrix<float>(x, 1, 5), as_matrix<float>(dy, 1, 5));
  exec.fence();
  EXPECT_EQ(to_host(y), (std::vector<float>{0, 0, 0, 30, 1e4f}));
  EXPECT_EQ(to_host(dy), (std::vector<float>{0, 0, 0.5f, 1, 1}));
}

TEST(Relu, PassesPositiveValuesOnly) {
  const Exec exec;
  const auto y = to_device(std::vector<double>{-1, 0, 2, nan}), dy = constant_tensor(4, 3);
  relu_forward<double>(exec, as_matrix<double>(y, 1, 4));
  relu_backward<double>(exec, as_matrix<double>(y, 1, 4), as_matrix<double>(dy, 1, 4));
  exec.fence();
  const auto values = to_host(y), gradients = to_host(dy);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[2], 2);
  EXPECT_TRUE(std::isnan(values[3])) << "a relu must not hide NaN";
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(gradients[i], i == 2 ? 3 : 0);
}

TEST(Layernorm, GradientsMatchFiniteDifferencesAndAdd) {
  const Exec exec;
  const std::size_t n = 5, c = 13;
  const auto x = random_tensor("x", n * c, 2, 1), gamma = random_tensor("g", c), beta = random_tensor("b", c);
  const auto y = constant_tensor(n * c, nan), dy = random_tensor("dy", n * c);
  const OwnedVector<double> mean = constant_tensor(n, nan), rstd = constant_tensor(n, nan);
  const LayernormStatistics<double> saved{mean, rstd};
  const auto dgamma = constant_tensor(c, 0), dbeta = constant_tensor(c, 0), dx = constant_tensor(n * c, nan);
  const auto loss = [&] {
    layernorm_forward<double>(exec, as_matrix<double>(x, n, c), gamma, beta, as_matrix<double>(y, n, c),
                              saved);
    exec.fence();
    return weighted_sum(dy, y);
  };
  const auto backward = [&](Into into) {
    layernorm_backward<double, double>(exec, as_matrix<double>(dy, n, c), as_matrix<double>(x, n, c), gamma,
                                       saved, dgamma, dbeta, as_matrix<double>(dx, n, c), into);
    exec.fence();
  };
  loss();
  backward(Into::write);
  const auto dx_once = to_host(dx), dgamma_once = to_host(dgamma), dbeta_once = to_host(dbeta);
  expect_gradient("x", x, dx_once, loss);
  expect_gradient("gamma", gamma, dgamma_once, loss);
  expect_gradient("beta", beta, dbeta_once, loss);
  loss();
  backward(Into::add);
  for (std::size_t i = 0; i < n * c; ++i) EXPECT_NEAR(to_host(dx)[i], 2 * dx_once[i], 1e-13);
  for (std::size_t i = 0; i < c; ++i) EXPECT_NEAR(to_host(dgamma)[i], 2 * dgamma_once[i], 1e-13);
  for (std::size_t i = 0; i < c; ++i) EXPECT_NEAR(to_host(dbeta)[i], 2 * dbeta_once[i], 1e-13);
}

// A row 0, 1, …, 4 around 1000: mean 1002, variance 2. A one-pass float variance would lose it.
TEST(Layernorm, StatisticsOfAKnownRow) {
  const Exec exec;
  const auto x = to_device(std::vector<float>{1000, 1001, 1002, 1003, 1004}),
             y = constant_tensor<float>(5, nan);
  const auto gamma = constant_tensor<float>(5, 1), beta = constant_tensor<float>(5, 0);
  const auto mean = constant_tensor<float>(1, nan), rstd = constant_tensor<float>(1, nan);
  layernorm_forward<float>(exec, as_matrix<float>(x, 1, 5), gamma, beta, as_matrix<float>(y, 1, 5),
                           {mean, rstd});
  exec.fence();
  EXPECT_EQ(to_host(mean)[0], 1002);
  EXPECT_NEAR(to_host(rstd)[0], 1 / std::sqrt(2 + layernorm_epsilon), 1e-7);
  EXPECT_NEAR(to_host(y)[4], 2 / std::sqrt(2 + layernorm_epsilon), 1e-6);
}

TEST(Embedding, AddsEveryOccurrenceOfAToken) {
  const Exec exec;
  const std::size_t b = 2, t = 3, v = 4, c = 2;
  const auto tokens =
      to_device(std::vector<std::int32_t>{1, 3, 1, 0, 1, 2, 1, 3});  // the last column is no input
  const auto token_matrix = as_matrix<const std::int32_t>(tokens, b, t + 1);
  const auto wte = random_tensor("wte", v * c), wpe = random_tensor("wpe", t * c);
  const auto x = constant_tensor(b * t * c, nan), dx = random_tensor("dx", b * t * c);
  const auto dwte = constant_tensor(v * c, 0), dwpe = constant_tensor(t * c, 0);
  const auto loss = [&] {
    embedding_forward<double>(exec, token_matrix, as_matrix<double>(wte, v, c), as_matrix<double>(wpe, t, c),
                              as_matrix<double>(x, b * t, c));
    exec.fence();
    return weighted_sum(dx, x);
  };
  for (int call = 1; call <= 2; ++call) {
    embedding_backward<double>(exec, token_matrix, as_matrix<double>(dx, b * t, c),
                               as_matrix<double>(dwte, v, c), as_matrix<double>(dwpe, t, c));
    exec.fence();
    const auto times = [&] { return call * loss(); };
    expect_gradient("wte", wte, to_host(dwte), times);
    expect_gradient("wpe", wpe, to_host(dwpe), times);
  }
  EXPECT_EQ(to_host(dwte)[0], 0) << "token 0 is a target only";
}

/// One sample of first + n tokens, of which the last n have logits.
struct CrossEntropyCase {
  std::size_t rows, vocab;
  OwnedVector<std::int32_t> tokens;
  Targets targets;

  CrossEntropyCase(std::size_t n, std::size_t v, std::size_t first = 0)
      : rows(n), vocab(v), tokens(to_device(token_values(first + n + 1, v))) {
    targets = {as_matrix<const std::int32_t>(tokens, 1, first + n + 1), first};
  }
  static std::vector<std::int32_t> token_values(std::size_t n, std::size_t v) {
    std::vector<std::int32_t> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<std::int32_t>(5 * i % v);
    return values;
  }
  template <class T>
  double loss(const OwnedVector<T>& logits) const {
    const Exec exec;
    const auto losses = constant_tensor(rows, nan), sum = constant_tensor(1, 0);
    cross_entropy<T>(exec, as_matrix<T>(logits, rows, vocab), targets, losses, sum);
    exec.fence();
    return to_host(sum)[0];
  }
  /// logits become the gradient.
  template <class T>
  double loss_and_gradient(double scale, const OwnedVector<T>& logits) const {
    const Exec exec;
    const auto losses = constant_tensor(rows, nan), sum = constant_tensor(1, 100);
    cross_entropy_and_gradient<T>(exec, scale, as_matrix<T>(logits, rows, vocab), targets, losses, sum,
                                  as_matrix<T>(logits, rows, vocab));
    exec.fence();
    return to_host(sum)[0] - 100;
  }
};

TEST(CrossEntropy, GradientMatchesFiniteDifferences) {
  const CrossEntropyCase test(4, 11, 2);
  const auto logits = random_tensor("logits", 4 * 11, 3), gradient = to_device(to_host(logits));
  EXPECT_NEAR(test.loss_and_gradient(0.25, gradient), test.loss(logits), 1e-12);
  expect_gradient("logits", logits, to_host(gradient), [&] { return 0.25 * test.loss(logits); });
}

TEST(CrossEntropy, UniformLogitsCostTheLogarithmOfTheVocabulary) {
  const CrossEntropyCase test(5, 11);
  EXPECT_NEAR(test.loss(constant_tensor(5 * 11, -3.5)), 5 * std::log(11.0), 1e-12);
  EXPECT_NEAR(test.loss(constant_tensor<float>(5 * 11, -3.5)), 5 * std::log(11.0), 1e-6);
}

TEST(CrossEntropy, StaysFiniteForHugeLogits) {
  const CrossEntropyCase test(2, 3);  // targets 2 and 1
  const auto logits = to_device(std::vector<float>{1e30f, 0, 1e30f, -1e30f, 0, 88});
  EXPECT_NEAR(test.loss(logits), std::log(2.0) + 88, 1e-5);
  test.loss_and_gradient(1, logits);
  const auto gradient = to_host(logits);
  const std::vector<float> expected = {0.5f, 0, -0.5f, 0, -1, 1};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(gradient[i], expected[i], 1e-6);
}

TEST(CrossEntropy, NanLogitGivesNanLoss) {
  const CrossEntropyCase test(1, 3);
  EXPECT_TRUE(std::isnan(test.loss(to_device(std::vector<float>{0, static_cast<float>(nan), 1}))));
}

TEST(MeanSquaredError, SumsSquaresAndScalesTheGradient) {
  const Exec exec;
  const std::size_t n = 3, c = 2;
  const auto y = random_tensor("y", n * c), r = random_tensor("r", n * c), sum = constant_tensor(1, 0);
  const auto loss = [&] {
    Kokkos::deep_copy(sum, 0.0);
    mean_squared_error<double>(exec, as_matrix<double>(y, n, c), as_matrix<double>(r, n, c), sum);
    exec.fence();
    return to_host(sum)[0];
  };
  double expected = 0;
  for (std::size_t i = 0; i < n * c; ++i) expected += std::pow(to_host(y)[i] - to_host(r)[i], 2);
  EXPECT_NEAR(loss(), expected, 1e-13);

  const auto dy = to_device(to_host(y));
  mean_squared_error_and_gradient<double>(exec, 1.0 / (n * c), as_matrix<double>(dy, n, c),
                                          as_matrix<double>(r, n, c), sum);
  exec.fence();
  EXPECT_NEAR(to_host(sum)[0], 2 * expected, 1e-13) << "losses are added";
  expect_gradient("y", y, to_host(dy), [&] { return loss() / (n * c); });
}

}  // namespace
}  // namespace shardmark
