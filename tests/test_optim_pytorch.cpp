// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "optim/optimizer.hpp"
#include "sum_of_squares.hpp"

namespace shardmark {
namespace {

// Figures of PyTorch 2.15 in double, for a = (0.5, -1.25, 2, 0.001) with weight_decay 0.1 and b = (1, -0.75)
// without: three steps, each after clip_grad_norm_([a, b], 1), with the gradients of gradients_of(t).
//   AdamW(lr=0.02, betas=(0.9, 0.95), eps=1e-3)      SGD(lr=0.02, momentum=0.9)
constexpr double adamw_figures[] = {0.44095699955743517,   -1.1832405786839313, 1.9463529945652822,
                                    -0.057885610438243876, 1.0559701761662352,  -0.8096290832937982};
constexpr double sgd_figures[] = {0.4727194216418429,   -1.2162837709550063, 1.9773374140647022,
                                  -0.08446570530742811, 1.0144683978650675,  -0.8092351238403892};
constexpr double last_norm = 2.1610208493004204;

void check_against_pytorch(const char* kind, const double* figures) {
  OptimizerConfig config;
  config.kind = kind;
  config.beta1 = 0.9;
  config.beta2 = 0.95;
  config.eps = 1e-3;
  config.momentum = 0.9;
  config.weight_decay = 0.1;
  const auto optimizer = make_optimizer<double>(config);
  const std::vector<Segment> segments = {{0, 0, 4, 0, true}, {1, 0, 2, 64, false}};
  const std::size_t place[] = {0, 1, 2, 3, 64, 65};

  const OwnedVector<double> parameters("shardmark::test::parameters", 128);
  const OwnedVector<double> gradients("shardmark::test::gradients", 128);
  const OwnedVector<double> first("shardmark::test::state", 128), second("shardmark::test::state", 128);
  const Chunks chunks(segments);
  const FlatShard<double> shard{parameters, gradients, {first, second}, &chunks};
  const auto set = [&](const OwnedVector<double>& data, std::initializer_list<double> values) {
    const auto host = Kokkos::create_mirror_view(data);
    for (std::size_t i = 0; i < 6; ++i) host(place[i]) = values.begin()[i];
    Kokkos::deep_copy(data, host);
  };

  const Exec exec;
  double norm = 0;
  set(parameters, {0.5, -1.25, 2, 0.001, 1, -0.75});
  for (int t = 1; t <= 3; ++t) {
    set(gradients, {0.3 * t, -0.5, 0.01 / t, 4.0 - t, -0.2 * t, 1.5});
    norm = std::sqrt(sum_of_squares<double>(exec, Vector<double>(gradients), segments));
    optimizer->step(exec, shard, 0.02, clip_scale(norm, 1), t);
    exec.fence();
  }
  EXPECT_NEAR(norm, last_norm, 1e-15);
  const auto host = Kokkos::create_mirror_view(parameters);
  Kokkos::deep_copy(host, parameters);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(host(place[i]), figures[i], 1e-14) << kind << ' ' << i;
}

TEST(Optimizer, AdamwAsInPytorch) {
  check_against_pytorch("adamw", adamw_figures);
}
TEST(Optimizer, SgdAsInPytorch) {
  check_against_pytorch("sgd", sgd_figures);
}

}  // namespace
}  // namespace shardmark
