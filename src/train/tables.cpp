// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/tables.hpp"

#include <fmt/format.h>

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
  double all = record.optimizer_seconds;
  for (double seconds : record.seconds_by_verb) all += seconds;
  if (all <= 0) return "";
  std::string text = "time of rank 0 in passes and optimizer\n";
  const auto row = [&](const char* name, double seconds) {
    if (seconds >= 0.001 * all)
      text += fmt::format("  {:<24}{:>10.3f} s {:>6.1f} %\n", name, seconds, 100 * seconds / all);
  };
  for (std::size_t i = 0; i < verb_names.size(); ++i) row(verb_names[i], record.seconds_by_verb[i]);
  row("optimizer", record.optimizer_seconds);
  CommTime communication;
  for (const CommTime& time : record.comm_times) communication += time;
  if (communication.seconds > 0)
    text += fmt::format(
        "  communication (progress by {}): {:.3f} s, of which {:.3f} exposed, {:.3f} hidden\n",
        record.comm_progress, communication.seconds, communication.exposed, communication.hidden());
  return text;
}

}  // namespace shardmark
