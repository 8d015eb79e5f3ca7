// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/error.hpp"
#include "gradient_check.hpp"
#include "model/model.hpp"

namespace shardmark {
namespace {

const double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t micro_batch = 3, samples = 2;  // the batch does not fill the model

std::vector<std::int32_t> some_tokens(const ModelConfig& config) {
  std::vector<std::int32_t> tokens(config.vocab == 0 ? 0 : samples * (config.context + 1));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * i % config.vocab);
  return tokens;
}

/// A model with its weights, gradients and one batch.
template <class T>
class ModelRun {
 public:
  explicit ModelRun(const ModelConfig& config, const ActivationConfig& activations = {micro_batch, 0, 512})
      : spec_(describe_model(config)),
        model_(make_model<T>(config, activations)),
        tokens_(to_device(some_tokens(config))),
        features_(random_tensor<T>("features", config.sizes.empty() ? 0 : samples * config.sizes.front())),
        responses_(random_tensor<T>("responses", config.sizes.empty() ? 0 : samples * config.sizes.back())) {
    for (const UnitSpec& unit : spec_.units) {
      layouts_.push_back(make_unit_layout(unit.parameters, 1));
      weights_.push_back(constant_tensor<T>(layouts_.back().total, nan));
      gradients_.push_back(constant_tensor<T>(layouts_.back().total, 0));
    }
    for (std::size_t u = 0; u < units(); ++u) {
      for (std::size_t i = 0; i < parameters(u).size(); ++i) {
        const Parameter& p = parameters(u)[i];
        const double mean = p.init.kind == Init::Kind::ones ? 1 : 0;
        Kokkos::deep_copy(weight(u, i), random_tensor<T>(p.name, p.size(), 0.3, mean));
      }
    }
    batch_.samples = samples;
    batch_.loss_scale = 1.0 / (samples * spec_.terms_per_sample);
    batch_.tokens = as_matrix<const std::int32_t>(tokens_, samples, config.context + 1);
    if (!config.sizes.empty()) {
      batch_.features = as_matrix<const T>(features_, samples, config.sizes.front());
      batch_.responses = as_matrix<const T>(responses_, samples, config.sizes.back());
    }
  }

  Model<T>& model() { return *model_; }
  Batch<T>& batch() { return batch_; }
  std::size_t units() const { return layouts_.size(); }
  const std::vector<Parameter>& parameters(std::size_t unit) const { return spec_.units[unit].parameters; }
  Vector<T> weight(std::size_t unit, std::size_t i) const { return part(weights_, unit, i); }
  std::vector<T> gradient(std::size_t unit, std::size_t i) const {
    OwnedVector<T> copy = allocate<T>("shardmark::test::gradient", parameters(unit)[i].size());
    Kokkos::deep_copy(copy, part(gradients_, unit, i));
    return to_host(copy);
  }

  /// The mean loss of the batch, without a gradient.
  double loss() {
    forward();
    const OwnedVector<double> sum = constant_tensor(1, 0);
    model_->loss(exec_, weights_of<const T>(last()), batch_, sum);
    exec_.fence();
    return to_host(sum)[0] * batch_.loss_scale;
  }

  /// The same, and its gradient is added to gradient().
  double loss_and_gradient() {
    forward();
    const OwnedVector<double> sum = constant_tensor(1, 0);
    model_->loss_and_backward(exec_, weights_of<const T>(last()), gradients_of(last()), batch_, sum);
    for (std::size_t stage = last(); stage-- > 0;)
      model_->backward(exec_, stage, weights_of<const T>(stage), gradients_of(stage), batch_);
    exec_.fence();
    return to_host(sum)[0] * batch_.loss_scale;
  }

 private:
  std::size_t last() const { return spec_.stages.size() - 1; }
  void forward() {
    for (std::size_t stage = 0; stage < last(); ++stage)
      model_->forward(exec_, stage, weights_of<const T>(stage), batch_);
  }
  template <class Scalar>
  UnitTensors<Scalar> weights_of(std::size_t stage) const {
    const std::size_t unit = spec_.stages[stage].unit;
    return {weights_[unit].data(), parameters(unit), layouts_[unit]};
  }
  UnitTensors<T> gradients_of(std::size_t stage) const {
    const std::size_t unit = spec_.stages[stage].unit;
    return {gradients_[unit].data(), parameters(unit), layouts_[unit]};
  }
  Vector<T> part(const std::vector<OwnedVector<T>>& buffers, std::size_t unit, std::size_t i) const {
    return UnitTensors<T>(buffers[unit].data(), parameters(unit), layouts_[unit]).vector(i);
  }

  Exec exec_;
  ModelSpec spec_;
  std::unique_ptr<Model<T>> model_;
  OwnedVector<std::int32_t> tokens_;
  OwnedVector<T> features_, responses_;
  std::vector<UnitLayout> layouts_;
  std::vector<OwnedVector<T>> weights_, gradients_;
  Batch<T> batch_;
};

ModelConfig gpt_config(bool tied) {
  ModelConfig config;
  config.kind = "gpt";
  config.layers = 2;
  config.width = 12;
  config.heads = 3;
  config.context = 5;
  config.vocab = 11;
  config.tie_embeddings = tied;
  return config;
}

ModelConfig mlp_config(std::vector<std::size_t> sizes) {
  ModelConfig config;
  config.kind = "mlp";
  config.sizes = std::move(sizes);
  return config;
}

struct NamedConfig {
  std::string name;
  ModelConfig config;
};
std::ostream& operator<<(std::ostream& out, const NamedConfig& named) {
  return out << named.name;
}

class ModelTest : public testing::TestWithParam<NamedConfig> {
 protected:
  const ModelConfig& config() const { return GetParam().config; }
};
INSTANTIATE_TEST_SUITE_P(Kinds, ModelTest,
                         testing::Values(NamedConfig{"gpt_tied", gpt_config(true)},
                                         NamedConfig{"gpt_untied", gpt_config(false)},
                                         NamedConfig{"mlp", mlp_config({5, 7, 9, 3})},
                                         NamedConfig{"mlp_of_one_layer", mlp_config({5, 3})}),
                         [](const auto& info) { return info.param.name; });

TEST_P(ModelTest, GradientsMatchFiniteDifferencesAndAdd) {
  ModelRun<double> run(config());
  EXPECT_NEAR(run.loss_and_gradient(), run.loss(), 1e-14);
  std::vector<std::vector<double>> once;
  for (std::size_t u = 0; u < run.units(); ++u) {
    for (std::size_t i = 0; i < run.parameters(u).size(); ++i) {
      once.push_back(run.gradient(u, i));
      expect_gradient(run.parameters(u)[i].name, run.weight(u, i), once.back(), [&] { return run.loss(); });
    }
  }
  run.loss_and_gradient();
  std::size_t k = 0;
  for (std::size_t u = 0; u < run.units(); ++u) {
    for (std::size_t i = 0; i < run.parameters(u).size(); ++i, ++k) {
      for (double& value : once[k]) value *= 2;
      EXPECT_LT(relative_difference(run.gradient(u, i), once[k]), 1e-12) << run.parameters(u)[i].name;
    }
  }
}

TEST_P(ModelTest, FloatAgreesWithDouble) {
  ModelRun<double> exact(config());
  ModelRun<float> single(config());
  EXPECT_NEAR(single.loss_and_gradient(), exact.loss_and_gradient(), 2e-6);
  for (std::size_t u = 0; u < exact.units(); ++u) {
    for (std::size_t i = 0; i < exact.parameters(u).size(); ++i)
      EXPECT_LT(relative_difference(single.gradient(u, i), exact.gradient(u, i)), 2e-5)
          << exact.parameters(u)[i].name;
  }
}

TEST_P(ModelTest, EmptyBatchChangesNothing) {
  ModelRun<double> run(config());
  run.batch().samples = 0;
  EXPECT_EQ(run.loss(), 0);
  EXPECT_EQ(run.loss_and_gradient(), 0);
  for (std::size_t u = 0; u < run.units(); ++u) {
    for (std::size_t i = 0; i < run.parameters(u).size(); ++i) {
      for (const double value : run.gradient(u, i)) ASSERT_EQ(value, 0) << run.parameters(u)[i].name;
    }
  }
}

// What an earlier, larger batch left behind must not be read: the first run sees one sample in fresh memory,
// the second one sees it after two samples whose weights were NaN.
TEST_P(ModelTest, RowsBeyondTheBatchAreNotRead) {
  ModelRun<double> fresh(config()), used(config());
  const Vector<double> weight = used.weight(0, 0);
  const OwnedVector<double> copy = allocate<double>("shardmark::test::copy", weight.extent(0));
  Kokkos::deep_copy(copy, weight);
  Kokkos::deep_copy(weight, nan);
  EXPECT_TRUE(std::isnan(used.loss_and_gradient()));
  Kokkos::deep_copy(weight, copy);

  fresh.batch().samples = used.batch().samples = 1;
  EXPECT_EQ(used.loss(), fresh.loss());
}

TEST(Gpt, KeyBiasHasNoGradient) {
  ModelRun<double> run(gpt_config(true));
  run.loss_and_gradient();
  const std::size_t c_attn_bias = 3, c = 12;
  ASSERT_EQ(run.parameters(1)[c_attn_bias].name, "transformer.h.0.attn.c_attn.bias");
  for (std::size_t i = 0; i < 3 * c; ++i) {
    const double value = std::abs(run.gradient(1, c_attn_bias)[i]);
    if (i / c == 1)
      EXPECT_LT(value, 1e-12);
    else
      EXPECT_GT(value, 1e-12);
  }
}

TEST(Gpt, ZeroHeadCostsTheLogarithmOfTheVocabulary) {
  ModelRun<double> run(gpt_config(false));
  Kokkos::deep_copy(run.weight(3, 0), 0.0);
  EXPECT_NEAR(run.loss(), std::log(11.0), 1e-14);
}

// 600 rows of logits do not exist at once: the loss takes them in pieces, here at other places.
TEST(Gpt, SamplesTogetherGiveTheSumOfTheirGradients) {
  ModelConfig config = gpt_config(true);
  config.layers = 1;
  config.context = 300;
  ModelRun<double> together(config), apart(config);
  const double loss = together.loss_and_gradient();
  const Matrix<const std::int32_t> tokens = apart.batch().tokens;
  double sum = 0;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    apart.batch().samples = 1;
    apart.batch().tokens = Matrix<const std::int32_t>(tokens.data() + sample * 301, 1, 301);
    sum += apart.loss_and_gradient();
  }
  EXPECT_NEAR(loss, sum, 1e-13);
  EXPECT_NEAR(together.loss(), loss, 1e-13);
  for (std::size_t u = 0; u < together.units(); ++u) {
    for (std::size_t i = 0; i < together.parameters(u).size(); ++i)
      EXPECT_LT(relative_difference(together.gradient(u, i), apart.gradient(u, i)), 1e-11)
          << together.parameters(u)[i].name;
  }
}

TEST(Gpt, NamesAndShapesAreThoseOfGpt2) {
  const ModelSpec spec = describe_model(gpt_config(false));
  const auto& units = spec.units;
  ASSERT_EQ(units.size(), 4u);
  EXPECT_TRUE(units[0].root);
  EXPECT_FALSE(units[1].root || units[2].root || units[3].root);
  const auto find = [&](std::size_t unit, const std::string& name) {
    for (const Parameter& p : units[unit].parameters) {
      if (p.name == name) return p;
    }
    ADD_FAILURE() << "no " << name << " in unit " << unit;
    return Parameter();
  };
  using Shape = std::vector<std::size_t>;
  EXPECT_EQ(find(0, "transformer.wte.weight").shape, (Shape{11, 12}));
  EXPECT_EQ(find(0, "transformer.wpe.weight").shape, (Shape{5, 12}));
  EXPECT_EQ(find(0, "transformer.ln_f.bias").shape, (Shape{12}));
  EXPECT_EQ(find(2, "transformer.h.1.attn.c_attn.weight").shape, (Shape{36, 12}));
  EXPECT_EQ(find(2, "transformer.h.1.mlp.c_fc.weight").shape, (Shape{48, 12}));
  EXPECT_EQ(find(2, "transformer.h.1.mlp.c_proj.weight").shape, (Shape{12, 48}));
  EXPECT_DOUBLE_EQ(find(2, "transformer.h.1.mlp.c_proj.weight").init.standard_deviation,
                   0.01);  // 0.02 / sqrt 4
  EXPECT_DOUBLE_EQ(find(2, "transformer.h.1.attn.c_proj.weight").init.standard_deviation, 0.01);
  EXPECT_EQ(find(2, "transformer.h.1.ln_1.weight").init.kind, Init::Kind::ones);
  EXPECT_EQ(find(3, "lm_head.weight").shape, (Shape{11, 12}));
  for (const UnitSpec& unit : units) {
    for (const Parameter& p : unit.parameters) EXPECT_EQ(p.decay, p.shape.size() == 2) << p.name;
  }
}

TEST(Gpt, FlopsCountMatrixProductsAndHalfOfAttention) {
  ModelConfig config = gpt_config(true);
  config.layers = 12;
  config.context = 8;
  const ModelSpec spec = describe_model(config);
  const double weights = 12 * (3 + 1 + 4 + 4) * 144 + 11 * 12, attention = 12 * (2 * 2 * 12 * 8) * 3 / 2;
  EXPECT_DOUBLE_EQ(spec.flops_per_sample, 8 * (6 * weights + attention));
}

TEST(Mlp, TermsAndFlops) {
  const ModelSpec spec = describe_model(mlp_config({5, 7, 3}));
  EXPECT_EQ(spec.terms_per_sample, 3u);
  EXPECT_DOUBLE_EQ(spec.flops_per_sample, 6 * (5 * 7 + 7 * 3));
  EXPECT_EQ(spec.units[1].parameters[0].name, "layers.1.weight");
  EXPECT_EQ(spec.units[1].parameters[0].shape, (std::vector<std::size_t>{3, 7}));
  EXPECT_DOUBLE_EQ(spec.units[1].parameters[0].init.standard_deviation, std::sqrt(2.0 / 7));
}

double flops_of(const std::vector<ProductShape>& products, bool in_attention) {
  double flops = 0;
  for (const ProductShape& product : products)
    if (product.batched == in_attention) flops += product.times * product.flops();
  return flops;
}

// The products that benchmarks time are those that the model counts. Attention's are tiles, which take the
// masked corner of their last keys along; recomputed blocks have all of their forward products but the last.
TEST(Products, AddUpToTheModelsFlops) {
  ModelConfig config = gpt_config(true);
  config.layers = 3;
  config.context = 512;
  const std::size_t samples = 2;
  const double n = samples * 512.0, c = 12, blocks = 12 * 3 * c * c, head = 11 * c;
  const auto all = product_shapes(config, {samples, 0, 512});
  EXPECT_DOUBLE_EQ(flops_of(all, false), n * 6 * (blocks + head));
  const double attention = describe_model(config).flops_per_sample * samples - n * 6 * (blocks + head);
  // 2 of 7 products more than the model's 6: scores are computed again in the backward pass.
  EXPECT_NEAR(flops_of(all, true), attention * 7 / 6, 0.15 * attention);
  const auto again = product_shapes(config, {samples, 2, 512});
  EXPECT_DOUBLE_EQ(flops_of(again, false) - flops_of(all, false), n * 2 * 2 * 8 * c * c);

  const auto mlp = product_shapes(mlp_config({5, 7, 3}), {4, 0, 512});
  EXPECT_DOUBLE_EQ(flops_of(mlp, false), 4 * (6 * (5 * 7 + 7 * 3) - 2 * 5 * 7));
}

void expect_deck_error(const ModelConfig& config, std::size_t batch, const std::string& message) {
  try {
    make_model<float>(config, {batch, 0, 512});
    FAIL() << "no error: " << message;
  } catch (const DeckError& error) {
    EXPECT_EQ(std::string(error.what()), message);
  }
}

TEST(MakeModel, ErrorsNameTheKeyAndTheValidValues) {
  ModelConfig config = gpt_config(true);
  config.heads = 5;
  expect_deck_error(config, 1, "model.heads = 5 must divide model.width = 12; valid: 1, 2, 3, 4, 6, 12");
  config.heads = 0;
  expect_deck_error(config, 1, "model.heads = 0: it must be at least 1");
  expect_deck_error(gpt_config(true), 0, "train.micro_batch = 0: it must be at least 1");
  config.kind = "gtp";
  expect_deck_error(config, 1, "model.kind = \"gtp\" is unknown; valid: \"gpt\", \"mlp\"");
  expect_deck_error(mlp_config({5}), 1,
                    "model.sizes lists 1 sizes: an MLP needs at least 2, the inputs and the outputs");
  expect_deck_error(mlp_config({5, 0, 2}), 1, "model.sizes[1] = 0: it must be at least 1");
}

}  // namespace
}  // namespace shardmark
