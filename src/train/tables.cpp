// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shardmark {

std::string memory_table(const MemoryBytes& predicted, const MemoryBytes* measured) {
  std::string text = measured == nullptr
                         ? fmt::format("memory of a rank, MB      {:>12}\n", "predicted")
                         : fmt::format("memory of rank 0, MB      {:>12} {:>12}\n", "predicted", "peak");
  const auto row = [&](const char* name, std::uint64_t expected, std::uint64_t found) {
    if (expected == 0 && found == 0) return;
    text += fmt::format("  {:<24}{:>12.3f}", name, expected / 1e6);
    text += measured == nullptr ? "\n" : fmt::format(" {:>12.3f}\n", found / 1e6);
  };
  for (std::size_t i = 0; i < predicted.size(); ++i)
    row(memory_class_names[i], predicted[i], measured == nullptr ? 0 : (*measured)[i]);
  row("together", sum_of(predicted), measured == nullptr ? 0 : sum_of(*measured));
  return text;
}

std::string place_table(const PlaceBytes& measured) {
  if (sum_of(measured) == measured[static_cast<std::size_t>(MemoryPlace::host)]) return "";
  std::string text = "peaks by place, MB";
  for (std::size_t i = 0; i < measured.size(); ++i)
    text += fmt::format("{} {} {:.3f}", i == 0 ? ":" : ",", memory_place_names[i], measured[i] / 1e6);
  return text + "\n";
}

std::string traffic_table(const TrafficByKind& predicted, const TrafficByKind* measured) {
  std::string text;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    if (predicted[i].calls == 0 && (measured == nullptr || (*measured)[i].calls == 0)) continue;
    text += fmt::format("  {:<16}{:>8} calls {:>12.3f} MB", collective_names[i], predicted[i].calls,
                        predicted[i].bytes / 1e6);
    text += measured == nullptr ? "\n"
                                : fmt::format(" predicted, {:>8} calls {:>12.3f} MB sent\n",
                                              (*measured)[i].calls, (*measured)[i].bytes / 1e6);
  }
  if (text.empty()) return "";
  return (measured == nullptr ? "traffic of a rank in a step\n" : "traffic of rank 0 in all steps\n") + text;
}

std::string time_table(const RunRecord& record) {
  double all = record.optimizer_seconds + record.evaluation_seconds;
  for (double seconds : record.seconds_by_verb) all += seconds;
  if (all <= 0) return "";
  std::string text = "time of rank 0 in training passes, optimizer and evaluation\n";
  const auto row = [&](const char* name, double seconds) {
    if (seconds >= 0.001 * all)
      text += fmt::format("  {:<24}{:>10.3f} s {:>6.1f} %\n", name, seconds, 100 * seconds / all);
  };
  for (std::size_t i = 0; i < verb_names.size(); ++i) row(verb_names[i], record.seconds_by_verb[i]);
  row("optimizer", record.optimizer_seconds);
  row("evaluation", record.evaluation_seconds);
  CommTime communication;
  for (const CommTime& time : record.comm_times) communication += time;
  if (communication.seconds > 0)
    text += fmt::format(
        "  communication in steps (progress by {}): {:.3f} s, of which {:.3f} exposed, {:.3f} hidden\n",
        record.comm_progress, std::max(communication.seconds, communication.exposed), communication.exposed,
        communication.hidden());
  return text;
}

std::string start_text(const RunConfig& config, const Communicator& world, const Mesh& mesh,
                       const RunRecord& record, const TrafficByKind& traffic_of_a_step) {
  const PrecisionConfig& precision = config.precision;
  std::string text = fmt::format(
      "strategy {}: {} ranks = {} replicas x {} shards; back end {}, progress by {}; whole parameters in "
      "{}\n",
      config.parallel.strategy.name, world.size(), mesh.replicas, mesh.shard_size, world.backend(),
      record.comm_progress, record.parameters_in);
  for (const std::string& line : record.mesh) text += "  " + line + "\n";
  text += fmt::format("precision: parameters {}, gradients {}, masters {}; GEMM by {}\n",
                      name_of(precision.param), name_of(precision.reduce), name_of(precision.master),
                      record.gemm);
  text += fmt::format("data {}\nmodel {}: {} parameters in {} units\n", record.data, config.model.kind,
                      record.parameters, record.units);
  text += memory_table(record.memory_predicted, nullptr) + traffic_table(traffic_of_a_step, nullptr);
  const auto ranks = static_cast<std::uint64_t>(world.size());
  if (config.train.global_batch < ranks)
    text += fmt::format("warning: train.global_batch = {}: {} of {} ranks have no sample in a step\n",
                        config.train.global_batch, ranks - config.train.global_batch, ranks);
  if (std::isfinite(record.lowest_loss))
    text += fmt::format("lowest possible loss (entropy rate): {:.6f}\n", record.lowest_loss);
  return text;
}

std::string saves_text(const RunRecord& record) {
  const SaveRecord& saves = record.saves;
  if (saves.count == 0) return "";
  std::string text = fmt::format("saves: {} in {:.3f} s, the main thread blocked for {:.3f} s of it",
                                 saves.count, saves.seconds, saves.blocked);
  const Summary beside = summarize(record.step_seconds_beside_save),
                alone = summarize(record.step_seconds_alone);
  if (beside.count > 0 && alone.count > 0)
    text += fmt::format("; median step {:.4f} s with a save in flight, {:.4f} s without", beside.median,
                        alone.median);
  return text + "\n";
}

std::string account_text(const RunRecord& record, const std::string& item_name) {
  const Summary rate = figure_of_merit(record).items_per_second;
  std::string text;
  if (rate.count > 0)
    text = fmt::format(
        "{}/s over {} timed steps: median {:.1f}, min {:.1f}, max {:.1f}; share of time in GEMM {:.2f}\n",
        item_name, rate.count, rate.median, rate.least, rate.most, record.gemm_share);
  return text + memory_table(record.memory_predicted, &record.memory_measured) +
         place_table(record.memory_by_place) +
         traffic_table(record.traffic_predicted, &record.traffic_measured) + time_table(record) +
         saves_text(record);
}

std::string figure_text(const RunRecord& record, const std::string& item_name) {
  const FigureOfMerit figure = figure_of_merit(record);
  if (figure.items_per_second.count == 0)
    return item_name + "_per_second=n/a model_flops_per_second=n/a mfu=n/a";
  const double mfu = figure.model_flops_per_second / record.peak_flops;
  return fmt::format("{}_per_second={:.1f} model_flops_per_second={:.3e} mfu={}", item_name,
                     figure.items_per_second.median, figure.model_flops_per_second,
                     std::isfinite(mfu) ? fmt::format("{:.3f}", mfu) : "n/a");
}

}  // namespace shardmark
