// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "forecast/memory.hpp"
#include "layers/gemm.hpp"
#include "small_run.hpp"
#include "train/ledger.hpp"

namespace shardmark {
namespace {

const Communicator& world() {
  static const Communicator* const communicator = make_world_communicator("mpi").release();  // outlives main
  return *communicator;
}
std::unique_ptr<Communicator> alone() {
  return world().split(world().rank(), 0);
}

using Overrides = std::vector<std::string>;
Overrides operator+(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Every element of the mean gradient of the first global batch, by parameter.
template <class T, class G>
std::map<std::string, std::vector<double>> gradient_of(SmallRun<T, G>& run) {
  run.trainer->loss_and_gradients();
  std::map<std::string, std::vector<double>> whole;
  for (auto& unit : run.trainer->units()) {
    const auto shard = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), unit.gradient_shard());
    for (const Parameter& parameter : unit.specs())
      whole[parameter.name] = std::vector<double>(parameter.size());
    for (const Segment& segment : unit.segments())
      for (std::size_t i = 0; run.mesh.replica == 0 && i < segment.size(); ++i)
        whole[unit.specs()[segment.parameter].name][segment.begin + i] =
            static_cast<double>(shard(segment.offset + i)) / run.trainer->loss_scale().factor();
  }
  for (auto& [name, values] : whole) run.world->host_all_reduce(values.data(), values.size());
  return whole;
}

template <class T, class G>
void expect_same_gradient(double tolerance, const Overrides& precision) {
  const auto self = alone();
  SmallRun<double> reference(*self, {"parallel.strategy=ddp"});
  const auto expected = gradient_of(reference);
  for (const StrategyCase& c : strategy_cases(world().size())) {
    SmallRun<T, G> run(world(), c.overrides + precision);
    double difference = 0, norm = 0;
    for (const auto& [name, values] : gradient_of(run)) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double d = values[i] - expected.at(name)[i];
        difference += d * d;
        norm += expected.at(name)[i] * expected.at(name)[i];
      }
    }
    EXPECT_LT(std::sqrt(difference / norm), tolerance) << c.name;
  }
}

// The same global batch on P ranks and on one, in double on the one.
TEST(Gradients, AreThoseOfOneRank) {
  choose_gemm(Dtype::bf16, "emulated");
  choose_gemm(Dtype::fp16, "emulated");
  expect_same_gradient<double, double>(1e-12, {});
  expect_same_gradient<float, float>(1e-5, {});
  expect_same_gradient<bf16, float>(2e-2, {});
  expect_same_gradient<bf16, bf16>(2e-2, {});
  expect_same_gradient<fp16, float>(4e-3, {});
}

template <class T>
void expect_same_first_norm(double tolerance) {
  double first = 0;
  for (const StrategyCase& c : strategy_cases(world().size())) {
    SmallRun<T> run(world(), c.overrides);
    const double norm = run.trainer->step().grad_norm;
    if (first == 0) first = norm;
    EXPECT_NEAR(norm, first, tolerance * first) << c.name;
  }
}
TEST(Gradients, FirstNormIsEqualAcrossStrategies) {
  expect_same_first_norm<double>(1e-12);
  expect_same_first_norm<float>(1e-6);
}

// The figures of a run, to compare variants that must not change them.
template <class T>
std::vector<double> losses(const Overrides& overrides, int n = 5) {
  SmallRun<T> run(world(), overrides);
  std::vector<double> all;
  for (const StepResult& result : run.steps(n)) {
    all.push_back(result.loss);
    all.push_back(result.grad_norm);
  }
  return all;
}

TEST(Recompute, ChangesMemoryAndNothingElse) {
  const Overrides base = {"model.layers=6"};
  const auto expected = losses<float>(base);
  std::uint64_t before = std::numeric_limits<std::uint64_t>::max();
  for (const char* every : {"", "3", "2", "1"}) {
    const Overrides how =
        every[0] == 0 ? Overrides{}
                      : Overrides{"train.recompute=block", std::string("train.recompute_every=") + every};
    const MemoryLedger ledger;
    EXPECT_EQ(losses<float>(base + how), expected);
    const std::uint64_t bytes = ledger.peak()[static_cast<int>(MemoryClass::activations)];
    EXPECT_LT(bytes, before) << every;
    before = bytes;
  }
  SmallRun<float> plain(world(), base), again(world(), base + Overrides{"train.recompute=block"});
  EXPECT_EQ(plain.trainer->training_schedule(), again.trainer->training_schedule());
}

TEST(Head, RowsOfLogitsSetTheirMemory) {
  const auto expected = losses<double>({});
  for (int rows : {1, 3, 7, 1000}) {
    const MemoryLedger ledger;
    const auto found = losses<double>({"train.head_rows=" + std::to_string(rows)});
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-13 * expected[i]);
    // 10 rows in a micro-batch of 2 x 5 tokens, 11 tokens in the vocabulary.
    EXPECT_EQ(ledger.peak()[static_cast<int>(MemoryClass::logits)], std::min(rows, 10) * 11 * sizeof(double));
  }
}

// Micro-batches of a step: reduced one by one, or once with whole gradients in memory.
TEST(Accumulation, TradesTrafficForMemory) {
  const int P = world().size();
  const Overrides base = {"parallel.strategy=zero3", "train.global_batch=" + std::to_string(3 * P),
                          "train.micro_batch=1"};
  const auto run_one = [&](const char* accumulate, MemoryBytes& memory, Traffic& reductions) {
    const MemoryLedger ledger;
    SmallRun<double> run(world(), base + Overrides{std::string("parallel.accumulate=") + accumulate});
    const double loss = run.steps(3).back().loss;
    memory = ledger.peak();
    reductions = measured_traffic(run.mesh)[static_cast<int>(Collective::reduce_scatter)];
    return loss;
  };
  MemoryBytes sharded_memory, whole_memory;
  Traffic sharded, whole;
  const double a = run_one("sharded", sharded_memory, sharded), b = run_one("whole", whole_memory, whole);
  EXPECT_NEAR(a, b, 1e-12 * a);
  EXPECT_EQ(sharded.calls, 3 * whole.calls);
  EXPECT_EQ(sharded.bytes, 3 * whole.bytes);
  const auto gradients = static_cast<int>(MemoryClass::gradients);
  EXPECT_EQ(whole_memory[gradients], P * sharded_memory[gradients]);
}

TEST(UnitParams, FewerMessagesForMoreMemory) {
  if (world().size() == 1) GTEST_SKIP() << "one rank sends nothing";
  const Overrides base = {"model.layers=6", "parallel.strategy=zero3"};
  const auto expected = losses<double>(base);
  std::uint64_t calls = std::numeric_limits<std::uint64_t>::max(), memory = 0;
  for (int blocks : {1, 2, 3, 6}) {
    const MemoryLedger ledger;
    // A block has 12 C^2 + 13 C parameters, C = 12.
    SmallRun<double> run(world(), base + Overrides{"parallel.unit_params=" + std::to_string(blocks * 1884)});
    EXPECT_EQ(run.trainer->units().size(), 1u + 6 / blocks);
    EXPECT_NEAR(run.steps(5).back().loss, expected[8], 1e-12 * expected[8]);
    const Traffic gathers = measured_traffic(run.mesh)[static_cast<int>(Collective::all_gather)];
    const std::uint64_t held = ledger.peak()[static_cast<int>(MemoryClass::unsharded_parameters)];
    EXPECT_LT(gathers.calls, calls);
    EXPECT_GE(held, memory);
    calls = gathers.calls;
    memory = held;
  }
}

// Shards + root + (k+1) largest other units + (1+r) of their gradients: what a run allocates, its own padding
// aside.
TEST(PeakMemory, IsTheDesignsFormula) {
  for (const char* tied : {"true", "false"}) {
    for (int k : {0, 1, 2, 3}) {
      const MemoryLedger ledger;
      SmallRun<float> run(world(), {"model.width=96", "model.layers=5", "model.vocab=97", "model.context=33",
                                    "parallel.strategy=zero3", std::string("model.tie_embeddings=") + tied,
                                    "parallel.prefetch=" + std::to_string(k)});
      run.trainer->step();
      forecast::Units units;
      for (const UnitLayout& layout : run.trainer->plan().layouts) units.others.push_back(layout.elements);
      units.root = units.others.front();
      units.others.erase(units.others.begin());
      forecast::Sharding sharding{run.config.parallel.strategy};
      sharding.shard_size = world().size();
      sharding.prefetch = k;
      const MemoryBytes peak = ledger.peak();
      const double activations = static_cast<double>(peak[static_cast<int>(MemoryClass::activations)] +
                                                     peak[static_cast<int>(MemoryClass::logits)]);
      const double measured = static_cast<double>(sum_of(peak) - peak[static_cast<int>(MemoryClass::other)]);
      const double expected = forecast::peak_bytes(sharding, units, activations);
      EXPECT_NEAR(measured, expected, 0.05 * expected) << "tied " << tied << " k " << k;
    }
  }
}

// A model state measured by the hooks is the closed formula's within 2 %.
template <class T, class G>
void expect_model_state(const char* strategy) {
  const MemoryLedger ledger;
  SmallRun<T, G> run(world(), {"model.width=96", "model.layers=3", "model.vocab=97", "model.context=33",
                               std::string("parallel.strategy=") + strategy});
  run.trainer->step();
  forecast::Sharding sharding{run.config.parallel.strategy};
  sharding.shard_size = run.mesh.shard_size;
  sharding.param = dtype_of<T>;
  sharding.reduce = dtype_of<G>;
  const double expected = forecast::model_state(sharding).between_steps() *
                          static_cast<double>(run.trainer->plan().parameter_count());
  double measured = 0;
  for (MemoryClass kind : model_state_classes)
    measured += static_cast<double>(ledger.peak()[static_cast<int>(kind)]);
  EXPECT_NEAR(measured, expected, 0.02 * expected) << strategy;
}
TEST(ModelState, IsThatOfTheFormulasInEveryPrecision) {
  choose_gemm(Dtype::bf16, "emulated");
  choose_gemm(Dtype::fp16, "emulated");
  for (const char* strategy : {"ddp", "zero1", "zero2", "zero3", "hybrid"}) {
    expect_model_state<float, float>(strategy);
    expect_model_state<float, bf16>(strategy);
    expect_model_state<double, double>(strategy);
    expect_model_state<bf16, float>(strategy);
    expect_model_state<bf16, bf16>(strategy);
    expect_model_state<fp16, float>(strategy);
  }
}

TEST(Offload, MovesWhatItMustAndChangesNothing) {
  const std::map<std::string, int> states = {{"adamw", 2}, {"sgd", 1}};
  for (const auto& [kind, n_states] : states) {
    const Overrides base = {"parallel.strategy=zero3", "optimizer.kind=" + kind};
    const auto plain = losses<float>(base);
    for (const char* what : {"optimizer", "all"}) {
      SmallRun<float> run(world(), base + Overrides{std::string("parallel.offload=") + what});
      std::vector<double> found;
      const Transfers start = run.trainer->transfers();
      for (const StepResult& result : run.steps(5)) {
        found.push_back(result.loss);
        found.push_back(result.grad_norm);
      }
      EXPECT_EQ(found, plain) << kind << " " << what;
      std::uint64_t slices = 0, gathers = 0;
      for (std::size_t u = 0; u < run.trainer->units().size(); ++u) {
        const std::uint64_t bytes = run.trainer->plan().layouts[u].slice * sizeof(float);
        slices += bytes;
        gathers += bytes * count(run.trainer->training_schedule(), Verb::unshard, u);
      }
      const bool all = std::string(what) == "all";
      const Transfers end = run.trainer->transfers();
      EXPECT_EQ(end.to_host - start.to_host, 5 * slices * (n_states + (all ? 1 : 0)));
      EXPECT_EQ(end.to_device - start.to_device,
                5 * (slices * (n_states + (all ? 1 : 0)) + (all ? gathers : 0)));
      EXPECT_GT(end.seconds, 0);
    }
  }
}

/// A weight of `parameter` becomes `value`, on the ranks that hold it and that `where` chooses.
template <class T, class G>
void set_weight(SmallRun<T, G>& run, const std::string& parameter, double value, bool where = true) {
  for (auto& unit : run.trainer->units())
    for (const Segment& segment : unit.segments())
      if (where && unit.specs()[segment.parameter].name == parameter && segment.begin == 0)
        Kokkos::deep_copy(Kokkos::subview(unit.masters().device(), segment.offset),
                          static_cast<Wide<T>>(value));
}

TEST(NonFinite, StopsAndNamesWhereItBegan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const char* strategy : {"ddp", "zero3"}) {
    SmallRun<float> run(world(), {std::string("parallel.strategy=") + strategy});
    set_weight(run, "transformer.h.1.mlp.c_fc.weight", nan);
    try {
      run.trainer->step();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::invalid);
      EXPECT_NE(std::string(error.what()).find("the weights transformer.h.1.mlp.c_fc.weight, micro-batch 0"),
                std::string::npos)
          << error.what();
    }
  }
}

// Finite weights whose product is not: the first block's output.
TEST(NonFinite, NamesTheLayerThatMadeIt) {
  SmallRun<float> run(world(), {"parallel.strategy=zero2"});
  set_weight(run, "transformer.h.0.mlp.c_proj.bias", 3e38);
  set_weight(run, "transformer.h.0.attn.c_proj.bias", 3e38);
  try {
    run.trainer->step();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the forward pass of h.0"), std::string::npos) << error.what();
  }
}

TEST(NonFinite, OneRankMakesAllSkip) {
  const int last = world().size() - 1;
  SmallRun<float> run(world(), {"parallel.strategy=ddp", "train.on_nonfinite=skip"});
  const double before = run.trainer->step().loss;
  const TrafficByKind start = measured_traffic(run.mesh);
  set_weight(run, "transformer.wpe.weight", std::numeric_limits<double>::infinity(), world().rank() == last);
  const StepResult skipped = run.trainer->step();
  EXPECT_TRUE(skipped.skipped);
  EXPECT_NE(skipped.reason.find("rank " + std::to_string(last)), std::string::npos) << skipped.reason;
  EXPECT_EQ(run.trainer->position().skipped_steps, 1u);
  // Where it began is found by doing the passes again.
  EXPECT_EQ(skipped.passes, 2u);
  const TrafficByKind end = measured_traffic(run.mesh);
  const TrafficByKind pass = predict_traffic(run.config, run.trainer->plan());
  for (std::size_t i = 0; i < end.size(); ++i)
    EXPECT_EQ(end[i].bytes - start[i].bytes, 2 * pass[i].bytes) << collective_names[i];
  set_weight(run, "transformer.wpe.weight", 0.01, world().rank() == last);
  const StepResult after = run.trainer->step();
  EXPECT_FALSE(after.skipped);
  EXPECT_NEAR(after.loss, before, 0.5);
  EXPECT_EQ(run.trainer->steps_done(), 3u);
}

// A scale of 2^30 overflows fp16; it is halved until it does not, the same on all ranks.
TEST(LossScaling, FindsAScaleThatFits) {
  choose_gemm(Dtype::fp16, "emulated");
  SmallRun<fp16> run(world(), {"precision.loss_scale=1073741824", "precision.loss_scale_growth=4"});
  int skipped = 0;
  StepResult result;
  do {
    result = run.trainer->step();
    skipped += result.skipped ? 1 : 0;
    ASSERT_LT(skipped, 30);
  } while (result.skipped);
  EXPECT_GT(skipped, 3);
  const double scale = run.trainer->loss_scale().factor();
  EXPECT_EQ(scale, std::ldexp(1.0, 30 - skipped));
  EXPECT_EQ(world().host_max(scale), scale);
  EXPECT_EQ(run.trainer->position().skipped_steps, static_cast<std::uint64_t>(skipped));
  for (int i = 0; i < 3; ++i) result = run.trainer->step();
  // Four good steps double it, if that does not overflow it stays.
  EXPECT_EQ(run.trainer->loss_scale().factor(), 2 * scale);
}

TEST(Replicas, ADifferenceIsNamed) {
  if (world().size() == 1) GTEST_SKIP() << "one rank has no replica";
  SmallRun<float> run(world(), {"parallel.strategy=ddp"});
  run.steps(2);
  EXPECT_EQ(run.trainer->differing_replica(), "");
  set_weight(run, "transformer.h.1.ln_2.weight", 1.25, world().rank() == 1);
  EXPECT_EQ(run.trainer->differing_replica(), "transformer.h.1.ln_1.weight");  // the first of its unit
}

}  // namespace
}  // namespace shardmark
