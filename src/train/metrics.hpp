// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "train/trainer.hpp"

namespace shardmark {

/// One line of metrics.jsonl.
struct StepMetrics {
  std::uint64_t step = 0;
  StepResult result;
  std::uint64_t items = 0;  ///< tokens of the global batch, or samples for the MLP
  double seconds = 0;
  std::optional<double> validation_loss;
};

/// Throws Error(invalid) where there is a validation loss that is not finite.
void require_finite_validation(const StepMetrics& metrics);

/// metrics.jsonl: a line a step, written at once, so that nothing is lost on a kill.
class MetricsFile {
 public:
  /// Keeps the lines of steps up to `after_step` that the file has already, and drops later or broken ones,
  /// so that a resumed run leaves the file of an uninterrupted one. Throws EnvironmentError where the file
  /// can't be written.
  MetricsFile(const std::string& path, std::uint64_t after_step, const std::string& item_name);
  void write(const StepMetrics& metrics);

  /// The line of `after_step` has no validation loss.
  bool lacks_validation() const { return lacks_validation_; }
  /// Adds it, where that line was written by a run that was stopped in its evaluation.
  void complete(double validation_loss);

 private:
  std::string path_;
  std::string item_name_;  ///< "tokens" or "samples"
  std::string last_line_;  ///< of `after_step`
  bool lacks_validation_ = false;
  std::ofstream out_;
};

/// How progress is shown: one changing line, or rows. Launchers hand the program a terminal of their own,
/// whatever its output goes to, so "auto" means rows unless the program was started without one and writes to
/// a terminal.
enum class ProgressStyle { rows, line };
ProgressStyle progress_style(const std::string& name, int ranks);

/// The progress of a run on standard output.
class Progress {
 public:
  Progress(std::uint64_t first_step, std::uint64_t last_step, std::uint64_t every,
           const std::string& item_name, ProgressStyle style);
  void show(const StepMetrics& metrics);
  /// A line of its own, such as a save.
  void say(const std::string& line);

 private:
  std::string time_left(const StepMetrics& metrics);

  std::uint64_t last_step_, every_;
  std::string item_name_;
  ProgressStyle style_;
  bool line_open_ = false;
  std::uint64_t steps_shown_ = 0;
  double seconds_ = 0;
};

struct Summary {
  double median = 0, least = 0, most = 0;
  std::size_t count = 0;
};
/// Of the values; all zero where there are none.
Summary summarize(std::vector<double> values);

}  // namespace shardmark
