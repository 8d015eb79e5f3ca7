// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/bench_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "comm/progress.hpp"
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

/// Seconds a step of this rank, means over the timed steps but for the median.
struct StepSplit {
  double median = 0, mean = 0;
  WorkSeconds work = {};
  double exposed = 0;  ///< waiting for communication
  std::size_t micro_batches = 0;
};

double exposed_so_far(const Mesh& mesh) {
  double seconds = 0;
  for (const CommTime& time : measured_times(mesh)) seconds += time.exposed;
  return seconds;
}

template <class T, class G>
StepSplit measure_step(const RunConfig& config, const Communicator& world, int steps) {
  Mesh mesh = make_mesh(world, config.parallel.shard_size_for(world.size()));
  const auto dataset = make_dataset(config.data, sample_shape(config.model), config.train.seed);
  Trainer<T, G> trainer(config, world, mesh, *dataset);
  for (int i = 0; i < 2; ++i) trainer.step();
  StepSplit split;
  split.micro_batches = trainer.plan().schedule.micro_batches;
  std::vector<double> seconds;
  const KernelTimes times;
  const double exposed = exposed_so_far(mesh);
  for (int i = 0; i < steps; ++i) {
    world.barrier();
    const Stopwatch watch;
    trainer.step();
    seconds.push_back(world.host_max(watch.seconds()));
  }
  split.median = summarize(seconds).median;
  for (double one : seconds) split.mean += one / steps;
  split.work = times.seconds();
  for (double& part : split.work) part /= steps;
  split.exposed = (exposed_so_far(mesh) - exposed) / steps;
  return split;
}

}  // namespace

ExitCode bench_step(const BenchStepOptions& options) {
  const auto bootstrap = make_world_communicator("mpi");
  Deck deck = read_deck(*bootstrap, options.deck, options.overrides).with({});
  const RunConfig config = read_run_config(deck);
  CommOptions comm = config.comm;
  comm.progress = resolve_progress(config.comm_progress, *bootstrap);
  const auto world = make_world_communicator(config.comm_backend, comm);
  choose_gemm(config.precision.param, config.precision.gemm);

  const int shard_size = config.parallel.shard_size_for(world->size());
  require_memory(*world, predict_memory(config, make_plan(config, world->size(), shard_size)));
  const auto before = measure_products(config, *world, 10);
  const StepSplit split = with_precision(config.precision, [&]<class T, class G>() {
    return measure_step<T, G>(config, *world, options.steps);
  });
  const auto after = measure_products(config, *world, 10);
  // The machine may be slower in one than in the other: the mean of both.
  const double at_rates = (seconds_of(before) + seconds_of(after)) / 2 * split.micro_batches;
  double best = 0, flops = 0;
  for (const auto* rates : {&before, &after})
    for (const ProductRate& rate : *rates) best = std::max(best, rate.flops_per_second);
  for (const ProductRate& rate : before) flops += rate.shape.times * rate.shape.flops() * split.micro_batches;

  world->agree([&] {
    if (world->rank() != 0) return;
    fmt::print("{} ranks, rank 0, {} by {}, back end {}\nstep: median {:.5f} s, mean {:.5f} s\n",
               world->size(), name_of(config.precision.param), gemm_description(config.precision.param),
               world->backend(), split.median, split.mean);
    if (!exec_is_host) fmt::print("  (kernels: seconds of launching them; other: until the loss has come)\n");
    double rest = split.mean;
    const auto row = [&](const char* name, double seconds) {
      fmt::print("  {:<32}{:>10.5f} s {:>6.1f} %\n", name, seconds, 100 * seconds / split.mean);
      rest -= seconds;
    };
    for (std::size_t i = 0; i < work_names.size(); ++i) row(work_names[i], split.work[i]);
    row("exposed communication", split.exposed);
    row("other", rest);
    fmt::print(
        "products and attention at the rates of their own shapes: {:.5f} s, {:.3f} of the step\n"
        "all of them at the rate of the best shape ({:.1f} GFLOP/s): {:.3f} of the step\n",
        at_rates, at_rates / split.median, best / 1e9, flops / best / split.median);
    if (options.json.empty()) return;
    nlohmann::ordered_json json = {{"median_seconds", split.median},
                                   {"mean_seconds", split.mean},
                                   {"exposed_communication_seconds", split.exposed},
                                   {"seconds_at_own_rates", at_rates},
                                   {"share_at_own_rates", at_rates / split.median},
                                   {"share_at_best_rate", flops / best / split.median}};
    for (std::size_t i = 0; i < work_names.size(); ++i) json["seconds"][work_names[i]] = split.work[i];
    if (!(std::ofstream(options.json) << json.dump(2) << std::endl))
      throw EnvironmentError(options.json + ": can't be written");
  });
  return ExitCode::success;
}

}  // namespace shardmark
