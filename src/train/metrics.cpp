// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/metrics.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace shardmark {

MetricsFile::MetricsFile(const std::string& path, std::uint64_t after_step, const std::string& item_name)
    : path_(path), item_name_(item_name) {
  std::vector<std::string> kept;
  std::ifstream in;
  if (after_step > 0 && std::filesystem::is_regular_file(path)) in.open(path);
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (row.is_object() && row.contains("step") && row["step"].is_number_unsigned() &&
        row["step"].get<std::uint64_t>() <= after_step) {
      kept.push_back(line);
      lacks_validation_ = row["step"].get<std::uint64_t>() == after_step && !row.contains("validation_loss");
    }
  }
  in.close();
  if (!kept.empty()) last_line_ = kept.back();
  const std::string fresh = path + ".new";
  out_.open(fresh, std::ios::trunc);
  for (const std::string& line : kept) out_ << line << '\n';
  out_.flush();
  std::error_code failure;
  if (out_) std::filesystem::rename(fresh, path, failure);
  if (!out_ || failure) throw EnvironmentError(path + ": can't be written");
}

void MetricsFile::write(const StepMetrics& metrics) {
  nlohmann::ordered_json row = {{"step", metrics.step},
                                {"loss", metrics.result.loss},
                                {"lr", metrics.result.learning_rate},
                                {"grad_norm", metrics.result.grad_norm},
                                {item_name_, metrics.items},
                                {"skipped", metrics.result.skipped},
                                {"loss_scale", metrics.result.loss_scale},
                                {"seconds", metrics.seconds},
                                {item_name_ + "_per_second", metrics.items / metrics.seconds}};
  if (metrics.validation_loss) row["validation_loss"] = *metrics.validation_loss;
  out_ << row.dump() << std::endl;
  if (!out_) throw EnvironmentError(path_ + ": can't be written");
}

void require_finite_validation(const StepMetrics& metrics) {
  if (metrics.validation_loss && !std::isfinite(*metrics.validation_loss))
    throw Error(
        ExitCode::invalid,
        fmt::format("the validation loss after step {} is {}", metrics.step, *metrics.validation_loss), true);
}

void MetricsFile::complete(double validation_loss) {
  auto row = nlohmann::ordered_json::parse(last_line_);
  MetricsFile shorter(path_, row["step"].get<std::uint64_t>() - 1, item_name_);
  row["validation_loss"] = validation_loss;
  shorter.out_ << row.dump() << std::endl;
  if (!shorter.out_) throw EnvironmentError(path_ + ": can't be written");
  *this = std::move(shorter);
}

ProgressStyle progress_style(const std::string& name, int ranks) {
  if (name == "line") return ProgressStyle::line;
  bool launched = ranks > 1;
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
    launched = launched || std::getenv(variable) != nullptr;
  return name == "auto" && !launched && isatty(STDOUT_FILENO) != 0 ? ProgressStyle::line
                                                                   : ProgressStyle::rows;
}

Progress::Progress(std::uint64_t first_step, std::uint64_t last_step, std::uint64_t every,
                   const std::string& item_name, ProgressStyle style)
    : last_step_(last_step), every_(every), item_name_(item_name), style_(style) {
  if (first_step >= last_step) return;
  if (style_ == ProgressStyle::rows)
    fmt::print("{:>8} {:>10} {:>10} {:>10} {:>12} {:>9}\n", "step", "loss", "lr", "grad_norm",
               item_name + "/s", "left");
  std::fflush(stdout);
}

void Progress::show(const StepMetrics& metrics) {
  ++steps_shown_;
  seconds_ += metrics.seconds;
  const StepResult& result = metrics.result;
  if (result.skipped)
    say(fmt::format("step {} skipped: {}", metrics.step, result.reason));
  else if (result.next_loss_scale != result.loss_scale)
    say(fmt::format("loss scale {} after step {}", result.next_loss_scale, metrics.step));
  const bool due = metrics.step % every_ == 0 || metrics.step == last_step_ || steps_shown_ == 1;
  if (!due && !metrics.validation_loss) return;
  const double rate = metrics.items / metrics.seconds;
  if (style_ == ProgressStyle::line) {
    fmt::print("\r\033[Kstep {}/{}  loss {:.4f}  {:.0f} {}/s  {} left", metrics.step, last_step_,
               metrics.result.loss, rate, item_name_, time_left(metrics));
    line_open_ = true;
  } else {
    fmt::print("{:>8} {:>10.4f} {:>10.2e} {:>10.3f} {:>12.0f} {:>9}\n", metrics.step, metrics.result.loss,
               metrics.result.learning_rate, metrics.result.grad_norm, rate, time_left(metrics));
  }
  if (metrics.validation_loss)
    say(fmt::format("validation at step {}: loss {:.4f}", metrics.step, *metrics.validation_loss));
  if (metrics.step == last_step_ && line_open_) say("");
  std::fflush(stdout);
}

void Progress::say(const std::string& line) {
  fmt::print("{}{}{}", line_open_ ? "\n" : "", line, line.empty() ? "" : "\n");
  line_open_ = false;
  std::fflush(stdout);
}

std::string Progress::time_left(const StepMetrics& metrics) {
  const auto left = static_cast<std::uint64_t>(seconds_ / steps_shown_ * (last_step_ - metrics.step) + 0.5);
  return left >= 3600 ? fmt::format("{}h{:02}m", left / 3600, left / 60 % 60)
                      : fmt::format("{}m{:02}s", left / 60, left % 60);
}

Summary summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values.front(), values.back(), n};
}

}  // namespace shardmark
