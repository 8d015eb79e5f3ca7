// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "core/rng.hpp"
#include "optim/optimizer.hpp"
#include "sum_of_squares.hpp"
#include "test_data.hpp"

namespace shardmark {
namespace {

/// Parameters a (matrix, decays) and b (vector, does not) of one unit, as a shard group of any size has them.
const std::vector<Parameter> parameters = {{"a", {5, 41}, {}, true}, {"b", {131}, {}, false}};

OptimizerConfig config_of(const std::string& kind) {
  OptimizerConfig config;
  config.kind = kind;
  config.lr = 0.01;
  config.beta1 = 0.9;
  config.beta2 = 0.95;
  config.eps = 1e-8;
  config.momentum = 0.9;
  config.weight_decay = 0.1;
  return config;
}

double random_value(const char* stream, std::uint64_t step, std::uint64_t index) {
  return Philox(stream_key(3, stream), index, step).normal();
}

template <class T>
std::vector<T> to_host(const Vector<T>& data) {
  std::vector<T> host(data.size());
  Kokkos::deep_copy(
      Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(host.data(), host.size()),
      data);
  return host;
}

/// The unit on `shards` ranks: the elements of all its slices, back in the order of the parameters.
template <class T>
class Sharded {
 public:
  Sharded(const OptimizerConfig& config, std::size_t shards)
      : optimizer_(make_optimizer<T>(config)), layout_(make_unit_layout(parameters, shards)) {
    const T nan = std::numeric_limits<T>::quiet_NaN();
    for (std::size_t shard = 0; shard < shards; ++shard) {
      segments_.push_back(make_segments(parameters, layout_, shard));
      chunks_.emplace_back(segments_.back());
      states_.emplace_back();
      for (const std::string& name : state_names(config))
        states_.back().emplace_back("shardmark::test::" + name, layout_.slice);
      parameters_.push_back(allocate<T>("shardmark::test::parameters", layout_.slice));
      gradients_.push_back(allocate<T>("shardmark::test::gradients", layout_.slice));
      Kokkos::deep_copy(parameters_.back(), nan);
      Kokkos::deep_copy(gradients_.back(), nan);
    }
    fill(parameters_, "start", 0);
  }

  void set_gradients(std::uint64_t step) { fill(gradients_, "gradient", step); }
  void step(double lr, double scale, std::uint64_t step) {
    for (std::size_t s = 0; s < segments_.size(); ++s) optimizer_->step(exec_, shard(s), lr, scale, step);
    exec_.fence();
  }
  double squares() const {
    double sum = 0;
    for (std::size_t s = 0; s < segments_.size(); ++s)
      sum += sum_of_squares<T>(exec_, Vector<T>(gradients_[s]), segments_[s]);
    return sum;
  }
  std::vector<T> weights() const {
    return gather([&](std::size_t s) { return Vector<T>(parameters_[s]); });
  }
  std::vector<T> state(std::size_t number) const {
    return gather([&](std::size_t s) { return Vector<T>(states_[s][number]); });
  }
  /// Elements outside all segments that are not as they were made: NaN, and 0 in the state.
  std::size_t touched_padding() const {
    std::size_t touched = 0;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      std::vector<bool> padding(layout_.slice, true);
      for (const Segment& segment : segments_[s])
        for (std::size_t i = 0; i < segment.size(); ++i) padding[segment.offset + i] = false;
      const std::vector<T> weights = to_host<T>(parameters_[s]);
      for (std::size_t i = 0; i < padding.size(); ++i) touched += padding[i] && !std::isnan(weights[i]);
      for (std::size_t number = 0; number < states_[s].size(); ++number) {
        const std::vector<T> state = to_host<T>(states_[s][number]);
        for (std::size_t i = 0; i < padding.size(); ++i) touched += padding[i] && state[i] != 0;
      }
    }
    return touched;
  }

 private:
  FlatShard<T> shard(std::size_t s) const {
    FlatShard<T> shard{parameters_[s], gradients_[s], {}, &chunks_[s]};
    for (const auto& state : states_[s]) shard.state.push_back(state);
    return shard;
  }

  void fill(std::vector<OwnedVector<T>>& slices, const char* stream, std::uint64_t step) {
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      const auto host = Kokkos::create_mirror_view(slices[s]);
      Kokkos::deep_copy(host, slices[s]);
      for (const Segment& segment : segments_[s])
        for (std::size_t i = 0; i < segment.size(); ++i)
          host(segment.offset + i) =
              static_cast<T>(random_value(stream, step, 1000 * segment.parameter + segment.begin + i));
      Kokkos::deep_copy(slices[s], host);
    }
  }

  template <class Slices>
  std::vector<T> gather(const Slices& slices) const {
    std::vector<T> elements;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      const std::vector<T> host = to_host<T>(slices(s));
      for (const Segment& segment : segments_[s])
        elements.insert(elements.end(), host.begin() + segment.offset,
                        host.begin() + segment.offset + segment.size());
    }
    return elements;
  }

  Exec exec_;
  std::unique_ptr<Optimizer<T>> optimizer_;
  UnitLayout layout_;
  std::vector<std::vector<Segment>> segments_;
  std::vector<Chunks> chunks_;
  std::vector<std::vector<OwnedVector<T>>> states_;  // [shard][state]
  std::vector<OwnedVector<T>> parameters_, gradients_;
};

constexpr std::size_t count_a = 205, count_b = 131;
bool decays(std::size_t i) {
  return i < count_a;
}
double start_of(std::size_t i) {
  return random_value("start", 0, i < count_a ? i : 1000 + i - count_a);
}
double gradient_of(std::uint64_t step, std::size_t i) {
  return random_value("gradient", step, i < count_a ? i : 1000 + i - count_a);
}

// With the bias corrections the first step is lr x sign(g), next to the decoupled decay.
TEST(Adamw, FirstStepIsTheSignOfTheGradient) {
  Sharded<double> unit(config_of("adamw"), 1);
  unit.set_gradients(1);
  unit.step(0.01, 1, 1);
  const std::vector<double> weights = unit.weights();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double p = start_of(i), sign = gradient_of(1, i) > 0 ? 1 : -1;
    EXPECT_NEAR(weights[i], p - 0.01 * sign - (decays(i) ? 0.01 * 0.1 * p : 0), 1e-7) << i;
  }
}

// Ten steps with a changing rate and clipping against a scalar transcript of the paper's Algorithm 2.
template <class T>
void check_adamw(double tolerance) {
  Sharded<T> unit(config_of("adamw"), 2);
  for (std::uint64_t step = 1; step <= 10; ++step) {
    unit.set_gradients(step);
    unit.step(0.01 * double(step), 0.5, step);
  }
  const std::vector<T> weights = unit.weights(), moment = unit.state(0), square = unit.state(1);
  ASSERT_EQ(weights.size(), count_a + count_b);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    double p = start_of(i), m = 0, v = 0;
    for (int t = 1; t <= 10; ++t) {
      const double g = 0.5 * gradient_of(t, i), lr = 0.01 * t;
      m = 0.9 * m + 0.1 * g;
      v = 0.95 * v + 0.05 * g * g;
      const double m_hat = m / (1 - std::pow(0.9, t)), v_hat = v / (1 - std::pow(0.95, t));
      p -= lr * m_hat / (std::sqrt(v_hat) + 1e-8) + (decays(i) ? lr * 0.1 * p : 0);
    }
    EXPECT_NEAR(weights[i], p, tolerance) << i;
    EXPECT_NEAR(moment[i], m, tolerance) << i;
    EXPECT_NEAR(square[i], v, tolerance) << i;
  }
}
TEST(Adamw, TenStepsInDouble) {
  check_adamw<double>(1e-14);
}
TEST(Adamw, TenStepsInFloat) {
  check_adamw<float>(3e-6);
}

// eps is added outside the root and after the bias correction: with a gradient of eps the first step is lr
// / 2.
TEST(Adamw, PlaceOfEps) {
  OptimizerConfig config = config_of("adamw");
  config.eps = 0.25;
  config.weight_decay = 0;
  Sharded<double> unit(config, 1);
  unit.set_gradients(1);
  unit.step(0.01, 1, 1);
  const std::vector<double> weights = unit.weights();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double g = gradient_of(1, i);
    EXPECT_NEAR(weights[i], start_of(i) - 0.01 * g / (std::abs(g) + 0.25), 1e-15);
  }
}

template <class T>
void check_sgd(double tolerance) {
  Sharded<T> unit(config_of("sgd"), 2);
  for (std::uint64_t step = 1; step <= 10; ++step) {
    unit.set_gradients(step);
    unit.step(0.01 * double(step), 0.5, step);
  }
  const std::vector<T> weights = unit.weights(), momentum = unit.state(0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    double p = start_of(i), sum = 0;
    for (int t = 1; t <= 10; ++t) {
      sum = 0.9 * sum + 0.5 * gradient_of(t, i) + (decays(i) ? 0.1 * p : 0);
      p -= 0.01 * t * sum;
    }
    EXPECT_NEAR(weights[i], p, tolerance) << i;
    EXPECT_NEAR(momentum[i], sum, tolerance) << i;
  }
}
TEST(Sgd, TenStepsInDouble) {
  check_sgd<double>(1e-14);
}
TEST(Sgd, TenStepsInFloat) {
  check_sgd<float>(3e-6);
}

// Where an element lies, in the vectorised part of a loop or in its rest, must not change its value.
template <class T>
void check_sharding(const std::string& kind) {
  for (std::size_t shards : {2, 3, 7, 20}) {
    Sharded<T> parts(config_of(kind), shards);
    Sharded<T> reference(config_of(kind), 1);
    for (std::uint64_t step = 1; step <= 5; ++step) {
      for (Sharded<T>* unit : {&parts, &reference}) {
        unit->set_gradients(step);
        unit->step(0.01, 0.7, step);
      }
    }
    EXPECT_EQ(parts.weights(), reference.weights()) << kind << " on " << shards;
    EXPECT_EQ(parts.state(0), reference.state(0)) << kind << " on " << shards;
    EXPECT_EQ(parts.touched_padding() + reference.touched_padding(), 0u);
    EXPECT_NEAR(parts.squares() / reference.squares(), 1, 1e-12);
  }
}
TEST(Optimizer, ShardsEqualTheWholeBitForBit) {
  check_sharding<float>("adamw");
  check_sharding<double>("adamw");
  check_sharding<float>("sgd");
  check_sharding<double>("sgd");
}

TEST(Optimizer, StateNames) {
  EXPECT_EQ(state_names(config_of("adamw")), (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(state_names(config_of("sgd")), std::vector<std::string>{"momentum"});
}

TEST(Optimizer, Failures) {
  const auto fails = [](auto change, std::initializer_list<std::string> fragments,
                        const char* kind = "adamw") {
    OptimizerConfig config = config_of(kind);
    change(config);
    expect_failure<DeckError>([&] { make_optimizer<float>(config); }, fragments);
  };
  fails([](auto& c) { c.kind = "lion"; }, {"optimizer.kind = \"lion\"", "\"adamw\", \"sgd\""});
  fails([](auto& c) { c.lr = -1; }, {"optimizer.lr = -1"});
  fails([](auto& c) { c.lr = std::nan(""); }, {"optimizer.lr = nan"});
  fails([](auto& c) { c.beta1 = 1; }, {"optimizer.betas = [1, 0.95]", "0 <= x < 1"});
  fails([](auto& c) { c.beta2 = -0.1; }, {"optimizer.betas = [0.9, -0.1]"});
  fails([](auto& c) { c.eps = 0; }, {"optimizer.eps = 0", "above 0"});
  fails([](auto& c) { c.weight_decay = -0.1; }, {"optimizer.weight_decay = -0.1"});
  fails([](auto& c) { c.clip = -1; }, {"optimizer.clip = -1"});
  fails([](auto& c) { c.momentum = 1; }, {"optimizer.momentum = 1", "0 <= x < 1"}, "sgd");
}

TEST(Clip, SumOfSquaresAgainstTheElements) {
  Sharded<float> unit(config_of("sgd"), 3);
  unit.set_gradients(4);
  double expected = 0;
  for (std::size_t i = 0; i < count_a + count_b; ++i) {
    const double g = static_cast<float>(gradient_of(4, i));
    expected += g * g;
  }
  EXPECT_NEAR(unit.squares(), expected, 1e-12 * expected);
}

// Many small elements and one large one, which sums in float would lose; it is alone in the last team.
TEST(Clip, SumsInDoubleOverManyTeams) {
  constexpr std::size_t n = 24 * 4096 + 1;
  const auto gradients = allocate<float>("shardmark::test::gradients", n);
  Kokkos::deep_copy(gradients, 1e-3f);
  Kokkos::deep_copy(Kokkos::subview(gradients, n - 1), 1e3f);
  const std::vector<Segment> segments = {{0, 0, n, 0, true}};
  const double small = static_cast<double>(1e-3f);
  EXPECT_NEAR(sum_of_squares<float>(Exec(), Vector<float>(gradients), segments),
              1e6 + small * small * (n - 1), 1e-6);
}

TEST(Clip, Scale) {
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_EQ(clip_scale(1e9, 0), 1);
  EXPECT_NEAR(clip_scale(4, 1), 0.25, 1e-6);
  EXPECT_TRUE(std::isnan(clip_scale(std::nan(""), 1)));
}

}  // namespace
}  // namespace shardmark
