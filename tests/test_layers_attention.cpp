// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include "attention_ways.hpp"

namespace shardmark {
namespace {

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

using Way = std::tuple<AttentionShape, bool>;  // fused
class Attention : public testing::TestWithParam<Way> {};

TEST_P(Attention, MatchesTheDefinition) {
  const auto [shape, fused] = GetParam();
  if (fused && !attention_fuses<double>(shape)) GTEST_SKIP() << "no fused attention for such heads";
  AttentionRun<double> run(shape, fused);
  run.forward();
  EXPECT_LT(relative_difference(to_host(run.out), direct_attention(shape, to_host(run.qkv))), 1e-13);
}

TEST_P(Attention, FloatAgreesWithDouble) {
  const auto [shape, fused] = GetParam();
  if (fused && !attention_fuses<double>(shape)) GTEST_SKIP() << "no fused attention for such heads";
  AttentionRun<float> single(shape, fused);
  AttentionRun<double> exact(shape, false);
  const std::size_t n = single.rows * shape.width;
  single.forward();
  exact.forward();
  EXPECT_LT(relative_difference(to_host(single.out), to_host(exact.out)), 2e-6);
  EXPECT_LT(relative_difference(to_host(single.log_sums), to_host(exact.log_sums)), 2e-6);
  EXPECT_LT(relative_difference(single.backward(random_tensor<float>("dout", n)),
                                exact.backward(random_tensor("dout", n))),
            5e-6);
}

// Lengths of one token, less than a tile, a tile (64 on hosts, 32 where it is fused), and tiles with a rest;
// heads of 64, of vectors with a rest, of more than tiles on hosts are for, and those whose fused tiles have
// 32 x 16, 16 x 16 and 8 x 8 scores.
INSTANTIATE_TEST_SUITE_P(
    Shapes, Attention,
    testing::Combine(testing::Values(AttentionShape{1, 1, 1, 1}, AttentionShape{2, 5, 3, 12},
                                     AttentionShape{1, 64, 2, 6}, AttentionShape{2, 131, 2, 10},
                                     AttentionShape{1, 40, 1, 64}, AttentionShape{1, 33, 1, 17},
                                     AttentionShape{2, 32, 2, 96}, AttentionShape{1, 35, 1, 80},
                                     AttentionShape{1, 37, 2, 256}, AttentionShape{0, 5, 3, 12},
                                     AttentionShape{1, 200, 2, 68}, AttentionShape{1, 70, 1, 300}),
                     testing::Bool()));

TEST(AttentionGradient, MatchesFiniteDifferences) {
  for (const Way& way : {Way{{2, 5, 3, 12}, false}, Way{{1, 67, 1, 2}, false}, Way{{2, 5, 3, 12}, true},
                         Way{{1, 67, 1, 2}, true}, Way{{1, 19, 1, 80}, true}}) {
    const auto [shape, fused] = way;
    AttentionRun<double> run(shape, fused);
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
  for (const bool fused : {false, true}) {
    AttentionRun<double> run({1, 9, 2, 8}, fused);
    run.forward();
    const auto dqkv = run.backward(random_tensor("dout", 9 * 8));
    for (std::size_t i = 0; i < 8; ++i) {
      double sum = 0;
      for (std::size_t t = 0; t < 9; ++t) sum += dqkv[t * 24 + 8 + i];
      EXPECT_LT(std::abs(sum), 1e-13);
    }
  }
}

// GPT-2's heads of 64 have them; where no tile fits in a device's shared memory there is the other way.
TEST(FusedAttention, IsForNarrowHeads) {
  EXPECT_TRUE(attention_fuses<bf16>({8, 1024, 12, 768}));
  EXPECT_TRUE(attention_fuses<bf16>({1, 1024, 16, 2048}));
  EXPECT_TRUE(attention_fuses<float>({8, 1024, 12, 768}));
  EXPECT_TRUE(attention_fuses<double>({8, 1024, 12, 768}));
  EXPECT_FALSE(attention_fuses<float>({1, 16, 1, 1024}));
  EXPECT_EQ(fused_attention_scratch_size({2, 5, 3, 12}), 30u);
}

}  // namespace
}  // namespace shardmark
