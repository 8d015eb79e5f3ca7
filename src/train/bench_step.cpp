// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/bench_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "comm/progress.hpp"
#include "core/device.hpp"
#include "layers/gemm.hpp"
#include "train/bench_gemm.hpp"
#include "train/kernel_times.hpp"
#include "train/ledger.hpp"
#include "train/metrics.hpp"
#include "train/precision_dispatch.hpp"
#include "train/preflight.hpp"
#include "train/trainer.hpp"

namespace shardmark {

namespace {

/// What was seen, on this rank but for the steps, which are the slowest rank's.
struct StepSplit {
  std::vector<double> steps, rounds;            ///< seconds: of each step; the median of each round
  std::vector<std::vector<ProductRate>> rates;  ///< before each round, and after the last
  WorkSeconds work = {};                        ///< of all steps
  double exposed = 0;                           ///< waiting for communication, of all steps
  std::size_t micro_batches = 0;                ///< a step

  double mean(double seconds) const { return seconds / static_cast<double>(steps.size()); }
  /// Seconds that a step's products take at the rates before and after a round.
  double at_rates(std::size_t round) const {
    return (seconds_of(rates[round]) + seconds_of(rates[round + 1])) / 2 * static_cast<double>(micro_batches);
  }
};

double exposed_so_far(const Mesh& mesh) {
  double seconds = 0;
  for (const CommTime& time : measured_times(mesh)) seconds += time.exposed;
  return seconds;
}

/// Rates and steps in turn: the machine may be slower at one time than at another.
template <class T, class G>
StepSplit measure_step(const RunConfig& config, const Communicator& world, int steps) {
  constexpr int most_rounds = 5, repeats = 5;
  Mesh mesh = make_mesh(world, config.parallel.shard_size_for(world.size()));
  const auto dataset = make_dataset(config.data, sample_shape(config.model), config.train.seed);
  Trainer<T, G> trainer(config, world, mesh, *dataset);
  for (int i = 0; i < 2; ++i) trainer.step();
  StepSplit split;
  split.micro_batches = trainer.plan().schedule.micro_batches;
  split.rates.push_back(measure_products(config, world, repeats));
  const int rounds = std::min(steps, most_rounds);
  for (int round = 0; round < rounds; ++round) {
    const int count = steps * (round + 1) / rounds - steps * round / rounds;
    const KernelTimes times;
    const double exposed = exposed_so_far(mesh);
    std::vector<double> seconds;
    for (int i = 0; i < count; ++i) {
      world.barrier();
      const Stopwatch watch;
      trainer.step();
      seconds.push_back(world.host_max(watch.seconds()));
    }
    split.steps.insert(split.steps.end(), seconds.begin(), seconds.end());
    split.rounds.push_back(summarize(seconds).median);
    for (std::size_t i = 0; i < split.work.size(); ++i) split.work[i] += times.seconds()[i];
    split.exposed += exposed_so_far(mesh) - exposed;
    split.rates.push_back(measure_products(config, world, repeats));
  }
  return split;
}

/// Medians over the rounds.
struct Shares {
  double at_rates = 0;      ///< seconds of a step's products at the rates of their own shapes
  double of_step = 0;       ///< the same over a step's seconds
  double best = 0;          ///< rate of the best shape
  double at_best_rate = 0;  ///< seconds of all products at that rate, over a step's
};

Shares shares_of(const StepSplit& split) {
  std::vector<double> at_rates, of_step, best, at_best_rate;
  double flops = 0;
  for (const auto& [shape, rate] : split.rates.front())
    flops += shape.times * shape.flops() * static_cast<double>(split.micro_batches);
  for (std::size_t round = 0; round < split.rounds.size(); ++round) {
    at_rates.push_back(split.at_rates(round));
    of_step.push_back(split.at_rates(round) / split.rounds[round]);
    double highest = 0;
    for (const std::size_t when : {round, round + 1})
      for (const auto& [shape, rate] : split.rates[when]) highest = std::max(highest, rate);
    best.push_back(highest);
    at_best_rate.push_back(flops / highest / split.rounds[round]);
  }
  return {summarize(at_rates).median, summarize(of_step).median, summarize(best).median,
          summarize(at_best_rate).median};
}

}  // namespace

ExitCode bench_step(const BenchStepOptions& options) {
  const auto bootstrap = make_world_communicator("mpi");
  Deck deck = read_deck(*bootstrap, options.deck, options.overrides).with({});
  const RunConfig config = read_run_config(deck);
  CommOptions comm = config.comm;
  comm.progress = resolve_progress(config.comm_progress, *bootstrap);
  const auto world = make_world_communicator(config.comm_backend, comm);
  require_own_devices(*world, device_uuid(), config.comm_share_device);
  choose_gemm(config.precision.param, config.precision.gemm, config.precision.tf32);

  const int shard_size = config.parallel.shard_size_for(world->size());
  require_memory(*world, predict_memory(config, make_plan(config, world->size(), shard_size)));
  const StepSplit split = with_precision(config.precision, [&]<class T, class G>() {
    return measure_step<T, G>(config, *world, options.steps);
  });
  const Shares shares = shares_of(split);
  const Summary step = summarize(split.steps);
  double mean = 0;
  for (const double seconds : split.steps) mean += split.mean(seconds);

  world->agree([&] {
    if (world->rank() != 0) return;
    fmt::print("{} ranks, rank 0, {} by {}, back end {}\nstep: median {:.5f} s, mean {:.5f} s\n",
               world->size(), name_of(config.precision.param), gemm_description(config.precision.param),
               world->backend(), step.median, mean);
    if (!exec_is_host)
      fmt::print("  (Kokkos waits for each kernel that it tells of: nothing overlaps here)\n");
    double rest = mean;
    const auto row = [&](const char* name, double seconds) {
      fmt::print("  {:<32}{:>10.5f} s {:>6.1f} %\n", name, seconds, 100 * seconds / mean);
      rest -= seconds;
    };
    for (std::size_t i = 0; i < work_names.size(); ++i) row(work_names[i], split.mean(split.work[i]));
    row("exposed communication", split.mean(split.exposed));
    row("other", rest);
    fmt::print(
        "products and attention at the rates of their own shapes: {:.5f} s, {:.3f} of the step\n"
        "all of them at the rate of the best shape ({:.1f} GFLOP/s): {:.3f} of the step\n"
        "(rates and steps measured in turn, medians of {} rounds)\n",
        shares.at_rates, shares.of_step, shares.best / 1e9, shares.at_best_rate, split.rounds.size());
    if (options.json.empty()) return;
    nlohmann::ordered_json json = {{"median_seconds", step.median},
                                   {"mean_seconds", mean},
                                   {"exposed_communication_seconds", split.mean(split.exposed)},
                                   {"seconds_at_own_rates", shares.at_rates},
                                   {"share_at_own_rates", shares.of_step},
                                   {"share_at_best_rate", shares.at_best_rate}};
    for (std::size_t i = 0; i < work_names.size(); ++i)
      json["seconds"][work_names[i]] = split.mean(split.work[i]);
    if (!(std::ofstream(options.json) << json.dump(2) << std::endl))
      throw EnvironmentError(options.json + ": can't be written");
  });
  return ExitCode::success;
}

}  // namespace shardmark
