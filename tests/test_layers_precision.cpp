// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "attention_ways.hpp"
#include "gemm_choice.hpp"
#include "gradient_check.hpp"
#include "layers/cross_entropy.hpp"
#include "layers/embedding.hpp"
#include "layers/gelu.hpp"
#include "layers/layernorm.hpp"
#include "layers/linear.hpp"
#include "layers/mean_squared_error.hpp"
#include "layers/relu.hpp"
#include "precision_check.hpp"

namespace shardmark {
namespace {

const double nan = std::numeric_limits<double>::quiet_NaN();

/// A layer's inputs in T, and the same numbers in double: what the layer does in double is then exact.
template <class T>
struct Input {
  OwnedVector<T> small;
  OwnedVector<double> exact;

  explicit Input(const std::vector<T>& values)
      : small(to_device(values)), exact(to_device(std::vector<double>(values.begin(), values.end()))) {}
  Input(const std::string& name, std::size_t n, double scale = 1, double mean = 0)
      : Input(random_values<T>(name, n, scale, mean)) {}

  template <class S>
  const OwnedVector<S>& as() const {
    if constexpr (std::is_same_v<S, T>)
      return small;
    else
      return exact;
  }
};

template <class T, class G>
struct Precision {
  using Of = T;
  using Gradient = G;
};
using Precisions = testing::Types<Precision<float, bf16>, Precision<bf16, float>, Precision<bf16, bf16>,
                                  Precision<fp16, float>>;

/// Runs f<T, G> and f<double, double> on inputs; the fixture names the types.
template <class P>
struct LayerIn : testing::Test {
  using T = typename P::Of;
  using G = typename P::Gradient;
  static constexpr double wide = unit_roundoff<Wide<T>>;
};
TYPED_TEST_SUITE(LayerIn, Precisions);

// One rounding to T, whatever the layer does inside.
TYPED_TEST(LayerIn, Activations) {
  using T = typename TestFixture::T;
  const std::size_t n = 7, c = 45;
  const Input<T> x("x", n * c, 2), dy("dy", n * c);
  const auto run = [&]<class S>(S) {
    const auto y = constant_tensor<S>(n * c, nan), z = to_device(to_host(x.template as<S>()));
    const auto dx = to_device(to_host(dy.template as<S>())), dz = to_device(to_host(dy.template as<S>()));
    const auto biased = to_device(to_host(x.template as<S>()));
    gelu_forward<S>(Exec(), constant_tensor<S>(c, 0), as_matrix<S>(biased, n, c), as_matrix<S>(y, n, c));
    gelu_backward<S>(Exec(), as_matrix<S>(biased, n, c), as_matrix<S>(dx, n, c));
    relu_forward<S>(Exec(), as_matrix<S>(z, n, c));
    relu_backward<S>(Exec(), as_matrix<S>(z, n, c), as_matrix<S>(dz, n, c));
    Exec().fence();
    return std::array{to_host(y), to_host(dx), to_host(z), to_host(dz)};
  };
  const auto small = run(T());
  const auto exact = run(0.0);
  expect_rounded("gelu", small[0], exact[0], 8 * TestFixture::wide);
  expect_rounded("gelu gradient", small[1], exact[1], 32 * TestFixture::wide + rounding<T>(1));  // slope's
  expect_rounded("relu", small[2], exact[2], 0);
  expect_rounded("relu gradient", small[3], exact[3], 0);
}

TYPED_TEST(LayerIn, Layernorm) {
  using T = typename TestFixture::T;
  using G = typename TestFixture::G;
  const std::size_t n = 70, c = 45;
  const Input<T> x("x", n * c, 2, 1), gamma("g", c), beta("b", c), dy("dy", n * c), dx("dx", n * c);
  const auto run = [&]<class S, class D>(S, D) {
    const auto y = constant_tensor<S>(n * c, nan), dx_added = to_device(to_host(dx.template as<S>())),
               dx_written = constant_tensor<S>(n * c, nan);
    const auto mean = constant_tensor<Wide<S>>(n, nan), rstd = constant_tensor<Wide<S>>(n, nan);
    const auto dgamma = constant_tensor<D>(c, 0), dbeta = constant_tensor<D>(c, 0),
               unused = constant_tensor<D>(c, 0);
    const auto matrix = [&](const OwnedVector<S>& v) { return as_matrix<S>(v, n, c); };
    const auto in = matrix(x.template as<S>()), gradient = matrix(dy.template as<S>());
    layernorm_forward<S>(Exec(), in, gamma.template as<S>(), beta.template as<S>(), matrix(y), {mean, rstd});
    layernorm_backward<S, D>(Exec(), gradient, in, gamma.template as<S>(), {mean, rstd}, dgamma, dbeta,
                             matrix(dx_written), Into::write);
    layernorm_backward<S, D>(Exec(), gradient, in, gamma.template as<S>(), {mean, rstd}, unused, unused,
                             matrix(dx_added), Into::add);
    Exec().fence();
    return std::tuple{std::array{to_host(y), to_host(dx_written), to_host(dx_added)},
                      std::array{to_host(dgamma), to_host(dbeta)}, std::array{to_host(mean), to_host(rstd)}};
  };
  const auto [small, small_gradients, statistics] = run(T(), G());
  const auto [exact, exact_gradients, exact_statistics] = run(0.0, 0.0);
  const double slack = c * TestFixture::wide;
  expect_rounded("y", small[0], exact[0], slack);
  expect_rounded("dx", small[1], exact[1], slack);
  expect_rounded("dx added", small[2], exact[2], slack);
  expect_rounded("dgamma", small_gradients[0], exact_gradients[0], n * TestFixture::wide);
  expect_rounded("dbeta", small_gradients[1], exact_gradients[1], n * TestFixture::wide);
  expect_rounded("mean", statistics[0], exact_statistics[0], slack);
  expect_rounded("rstd", statistics[1], exact_statistics[1], slack);
}

TYPED_TEST(LayerIn, Linear) {
  using T = typename TestFixture::T;
  using G = typename TestFixture::G;
  const std::size_t n = 67, in = 45, out = 33;
  const Input<T> x("x", n * in), w("w", out * in), b("b", out), r("r", n * out), dy("dy", n * out);
  const auto run = [&]<class S, class D>(S, D) {
    const auto y = constant_tensor<S>(n * out, nan), dx = constant_tensor<S>(n * in, nan);
    const auto logits = constant_tensor<Wide<S>>(n * out, nan);
    const auto dw = constant_tensor<D>(out * in, 0.5), db = constant_tensor<D>(out, 0.5);
    const auto input = as_matrix<S>(x.template as<S>(), n, in),
               weight = as_matrix<S>(w.template as<S>(), out, in);
    linear_forward<S, S>(Exec(), input, weight, b.template as<S>(), as_matrix<S>(r.template as<S>(), n, out),
                         as_matrix<S>(y, n, out));
    linear_forward<S, Wide<S>>(Exec(), input, weight, {}, {}, as_matrix<Wide<S>>(logits, n, out));
    linear_backward<S, D>(Exec(), as_matrix<S>(dy.template as<S>(), n, out), input, weight,
                          as_matrix<D>(dw, out, in), db, as_matrix<S>(dx, n, in), Into::add);
    Exec().fence();
    return std::tuple{to_host(y), to_host(dx), to_host(logits), to_host(dw), to_host(db)};
  };
  const auto [y, dx, logits, dw, db] = run(T(), G());
  const auto [exact_y, exact_dx, exact_logits, exact_dw, exact_db] = run(0.0, 0.0);
  const double wide = TestFixture::wide;
  expect_rounded("y", y, exact_y, unit_roundoff<T> + in * wide);  // bias + residual is rounded before
  expect_rounded("logits", logits, exact_logits, in * wide);
  expect_rounded("dx", dx, exact_dx, out * wide);
  expect_rounded("dweight", dw, exact_dw, n * wide);
  expect_rounded("dbias", db, exact_db, n * wide);
}

// Token 1 occurs 200 times: a sum that were rounded to bf16 at each would stop growing.
TYPED_TEST(LayerIn, Embedding) {
  using T = typename TestFixture::T;
  using G = typename TestFixture::G;
  const std::size_t b = 4, t = 75, v = 3, c = 1100;
  std::vector<std::int32_t> values(b * (t + 1), 1);
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = static_cast<std::int32_t>(i / 3 % v);
  const auto tokens = to_device(values);
  const auto token_matrix = as_matrix<const std::int32_t>(tokens, b, t + 1);
  const Input<T> wte("wte", v * c), wpe("wpe", t * c), dx("dx", b * t * c, 0.5, 1);
  const auto run = [&]<class S, class D>(S, D) {
    const auto x = constant_tensor<S>(b * t * c, nan);
    const auto dwte = constant_tensor<D>(v * c, 1), dwpe = constant_tensor<D>(t * c, 1);
    embedding_forward<S>(Exec(), token_matrix, as_matrix<S>(wte.template as<S>(), v, c),
                         as_matrix<S>(wpe.template as<S>(), t, c), as_matrix<S>(x, b * t, c));
    embedding_backward<S, D>(Exec(), token_matrix, as_matrix<S>(dx.template as<S>(), b * t, c),
                             as_matrix<D>(dwte, v, c), as_matrix<D>(dwpe, t, c));
    Exec().fence();
    return std::tuple{to_host(x), to_host(dwte), to_host(dwpe)};
  };
  const auto [x, dwte, dwpe] = run(T(), G());
  const auto [exact_x, exact_dwte, exact_dwpe] = run(0.0, 0.0);
  expect_rounded("x", x, exact_x, TestFixture::wide);
  expect_rounded("dwte", dwte, exact_dwte, b * t * TestFixture::wide);
  expect_rounded("dwpe", dwpe, exact_dwpe, b * TestFixture::wide);
}

// Lengths below a tile, and tiles with a rest, by every way that there is here. Where products are of T,
// probabilities and gradients of scores are rounded to T before they enter sums of up to T terms; such
// roundings add up like a random walk.
TYPED_TEST(LayerIn, Attention) {
  using T = typename TestFixture::T;
  struct Case {
    AttentionShape shape;
    bool fused;
    std::string gemm;
  };
  std::vector<Case> cases;
  for (const AttentionShape& shape :
       {AttentionShape{2, 5, 3, 12}, AttentionShape{2, 131, 2, 10}, AttentionShape{1, 200, 2, 68}}) {
    for (const auto& gemm : {"emulated", "native"}) cases.push_back({shape, false, gemm});
    cases.push_back({shape, true, "emulated"});
  }
  for (const auto& [shape, fused, gemm] : cases) {
    SCOPED_TRACE(gemm + std::to_string(shape.tokens) + (fused ? " fused" : ""));
    const GemmChoice choice(dtype_of<T>, gemm);
    if (gemm == "native" && !choice.here()) continue;
    const std::size_t n = shape.samples * shape.tokens, c = shape.width;
    const Input<T> qkv("qkv", n * 3 * c), dout("dout", n * c);
    const auto run = [&, &way = fused, &as = shape]<class S>(S) {
      AttentionRun<S> attention(as, way, qkv.template as<S>());
      attention.forward();
      const std::vector<S> gradient = attention.backward(dout.template as<S>());
      return std::tuple{to_host(attention.out), gradient, to_host(attention.log_sums)};
    };
    const auto [out, dqkv, log_sums] = run(T());
    const auto [exact_out, exact_dqkv, exact_log_sums] = run(0.0);
    const double tokens = static_cast<double>(shape.tokens), wide = TestFixture::wide;
    const double copies = std::is_same_v<T, float> ? 0 : unit_roundoff<T>;
    expect_rounded("log_sums", log_sums, exact_log_sums, (tokens + c) * wide);
    expect_rounded("out", out, exact_out, copies + tokens * wide);
    expect_rounded("dqkv", dqkv, exact_dqkv, copies * std::sqrt(tokens) + 4 * tokens * wide);
  }
}

TYPED_TEST(LayerIn, CrossEntropy) {
  using T = typename TestFixture::T;
  const std::size_t n = 5, v = 300;
  const auto tokens = to_device(std::vector<std::int32_t>{0, 7, 299, 0, 150, 7});
  const Targets targets{as_matrix<const std::int32_t>(tokens, 1, n + 1)};
  const Input<Wide<T>> logits("logits", n * v, 3);
  const auto run = [&]<class S>(S) {
    const auto x = to_device(to_host(logits.template as<Wide<S>>()));
    const auto dx = constant_tensor<S>(n * v, nan);
    const auto losses = constant_tensor(n, nan), sum = constant_tensor(2, 0);
    cross_entropy<S>(Exec(), as_matrix<Wide<S>>(x, n, v), targets, losses, slice<double>(sum, 0, 1));
    cross_entropy_and_gradient<S>(Exec(), 0.25, as_matrix<Wide<S>>(x, n, v), targets, losses,
                                  slice<double>(sum, 1, 2), as_matrix<S>(dx, n, v));
    Exec().fence();
    return std::pair{to_host(dx), to_host(sum)};
  };
  const auto [gradient, sums] = run(T());
  const auto [exact_gradient, exact_sums] = run(0.0);
  expect_rounded("gradient", gradient, exact_gradient, v * TestFixture::wide);
  for (const double sum : sums) EXPECT_NEAR(sum, exact_sums[0], exact_sums[0] * v * TestFixture::wide);
}

TYPED_TEST(LayerIn, MeanSquaredError) {
  using T = typename TestFixture::T;
  const std::size_t n = 6, c = 35;
  const Input<T> y("y", n * c), r("r", n * c);
  const auto run = [&]<class S>(S) {
    const auto dy = to_device(to_host(y.template as<S>()));
    const auto sum = constant_tensor(1, 0);
    mean_squared_error_and_gradient<S>(Exec(), 0.75, as_matrix<S>(dy, n, c),
                                       as_matrix<S>(r.template as<S>(), n, c), sum);
    Exec().fence();
    return std::pair{to_host(dy), to_host(sum)};
  };
  const auto [gradient, sum] = run(T());
  const auto [exact_gradient, exact_sum] = run(0.0);
  expect_rounded("gradient", gradient, exact_gradient, 2 * TestFixture::wide);
  EXPECT_NEAR(sum[0], exact_sum[0], 1e-12);
}

// The gradient may take the place of the logits, or have its own.
TEST(CrossEntropyPlace, DoesNotMatter) {
  const std::size_t n = 2, v = 50;
  const auto tokens = to_device(std::vector<std::int32_t>{0, 7, 49});
  const Targets targets{as_matrix<const std::int32_t>(tokens, 1, n + 1)};
  const auto x = random_tensor<float>("x", n * v), same = to_device(to_host(x)),
             own = constant_tensor<float>(n * v, nan);
  const auto losses = constant_tensor(n, nan), sum = constant_tensor(1, 0);
  const auto matrix = [&](const OwnedVector<float>& values) { return as_matrix<float>(values, n, v); };
  cross_entropy_and_gradient<float>(Exec(), 1, matrix(same), targets, losses, sum, matrix(same));
  cross_entropy_and_gradient<float>(Exec(), 1, matrix(x), targets, losses, sum, matrix(own));
  Exec().fence();
  EXPECT_EQ(to_host(same), to_host(own));
}

}  // namespace
}  // namespace shardmark
