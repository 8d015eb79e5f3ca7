// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/version.hpp"

namespace shardmark {

using Json = nlohmann::ordered_json;

namespace {

Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json to_json(const MemoryBytes& bytes) {
  Json object;
  for (std::size_t i = 0; i < bytes.size(); ++i) object[memory_class_names[i]] = bytes[i];
  return object;
}

Json to_json(const PlaceBytes& bytes) {
  Json object;
  for (std::size_t i = 0; i < bytes.size(); ++i) object[memory_place_names[i]] = bytes[i];
  return object;
}

Json to_json(const TrafficByKind& traffic) {
  Json object;
  for (std::size_t i = 0; i < traffic.size(); ++i)
    object[collective_names[i]] = {{"calls", traffic[i].calls}, {"bytes", traffic[i].bytes}};
  return object;
}

Json to_json(const Summary& summary) {
  if (summary.count == 0) return nullptr;
  return {
      {"median", summary.median}, {"min", summary.least}, {"max", summary.most}, {"count", summary.count}};
}

}  // namespace

void book_traffic(RunRecord& record, const TrafficByKind& before, const TrafficByKind& after,
                  const TrafficByKind& predicted, std::uint64_t passes) {
  for (std::size_t i = 0; i < after.size(); ++i) {
    record.traffic_measured[i].calls += after[i].calls - before[i].calls;
    record.traffic_measured[i].bytes += after[i].bytes - before[i].bytes;
    record.traffic_predicted[i].calls += passes * predicted[i].calls;
    record.traffic_predicted[i].bytes += passes * predicted[i].bytes;
  }
}

void describe_ranks(RunRecord& record, const Communicator& world, const Mesh& mesh) {
  record.comm_backend = world.backend();
  record.mesh = describe(world, mesh);
}

void book_memory(RunRecord& record, const MemoryLedger& ledger) {
  record.memory_measured = ledger.peak();
  record.memory_by_place = ledger.peak_by_place();
}

void book_times(RunRecord& record, const TimeByKind& before, const TimeByKind& after) {
  for (std::size_t i = 0; i < after.size(); ++i)
    record.comm_times[i] += {after[i].seconds - before[i].seconds, after[i].exposed - before[i].exposed};
}

FigureOfMerit figure_of_merit(const RunRecord& record) {
  std::vector<double> rates;
  for (double seconds : record.step_seconds) rates.push_back(record.items_per_step / seconds);
  FigureOfMerit figure;
  figure.items_per_second = summarize(rates);
  if (record.items_per_step > 0)
    figure.model_flops_per_second =
        record.model_flops_per_step * figure.items_per_second.median / record.items_per_step;
  return figure;
}

std::string difference_from_prediction(const RunRecord& record) {
  std::string text;
  for (std::size_t i = 0; i < record.traffic_measured.size(); ++i)
    if (record.traffic_measured[i].bytes != record.traffic_predicted[i].bytes)
      text = fmt::format("{} moved {} bytes, predicted {}", collective_names[i],
                         record.traffic_measured[i].bytes, record.traffic_predicted[i].bytes);
  for (MemoryClass kind : model_state_classes) {
    const auto i = static_cast<std::size_t>(kind);
    const auto measured = static_cast<double>(record.memory_measured[i]);
    const auto predicted = static_cast<double>(record.memory_predicted[i]);
    if (std::abs(measured - predicted) > 0.05 * predicted)
      text = fmt::format("{} take {} bytes, predicted {}", memory_class_names[i], measured, predicted);
  }
  return text;
}

std::string fault_of_losses(const RunRecord& record) {
  if (record.steps_taken == 0) return "";
  if (record.steps_skipped == record.steps_taken)
    return fmt::format("all {} steps were skipped: nothing was learnt", record.steps_taken);
  if (!std::isfinite(record.final_loss))
    return fmt::format("the loss of the last step is {}", record.final_loss);
  return "";
}

std::map<std::string, checkpoint::Value> provenance(int ranks, const RunConfig& config,
                                                    const RunRecord& record) {
  return {{"ranks", std::int64_t{ranks}},
          {"strategy", std::string(config.parallel.strategy.name)},
          {"mesh", fmt::format("{}", fmt::join(record.mesh, "\n"))},
          {"time", std::int64_t{std::time(nullptr)}},
          {"version", std::string(version)}};
}

void write_report(const std::string& path, const Deck& deck, const RunConfig& config, const RunRecord& record,
                  const std::string& item_name) {
  const FigureOfMerit figure = figure_of_merit(record);
  Json report;
  report["result"] = record.result;
  report["stopped_by"] = record.stopped_by.empty() ? Json(nullptr) : Json(record.stopped_by);
  report["build"] = describe_build();
  report["mesh"] = record.mesh;
  report["strategy"] = config.parallel.strategy.name;
  report["parameters_in"] = record.parameters_in;
  report["precision"] = {{"param", name_of(config.precision.param)},
                         {"reduce", name_of(config.precision.reduce)},
                         {"master", name_of(config.precision.master)},
                         {"loss_scale", record.loss_scale},
                         {"gemm", record.gemm},
                         {"tf32", config.precision.tf32}};
  report["data"] = record.data;
  report["parameters"] = record.parameters;
  report["first_step"] = record.first_step;
  report["steps"] = record.steps;
  report["skipped_steps"] = record.skipped_steps;
  report["replica_checks"] = record.replica_checks;
  report["loss"] = {{"final", number_or_null(record.final_loss)},
                    {"validation", number_or_null(record.validation_loss)},
                    {"lowest_possible", number_or_null(record.lowest_loss)}};
  report[item_name + "_per_second"] = to_json(figure.items_per_second);
  report["model_flops_per_second"] = figure.model_flops_per_second;
  report["mfu"] = number_or_null(figure.model_flops_per_second / record.peak_flops);
  report["peak_flops_per_second"] = number_or_null(record.peak_flops);
  report["step_seconds"] = to_json(summarize(record.step_seconds));
  report["gemm_share_of_step"] = number_or_null(record.gemm_share);
  report["memory_rank0_bytes"] = {{"predicted", to_json(record.memory_predicted)},
                                  {"measured_peak", to_json(record.memory_measured)},
                                  {"measured_peak_by_place", to_json(record.memory_by_place)},
                                  {"resident_peak", record.peak_resident}};
  report["traffic_rank0"] = {{"predicted", to_json(record.traffic_predicted)},
                             {"measured", to_json(record.traffic_measured)}};
  Json times;
  for (std::size_t i = 0; i < record.comm_times.size(); ++i)
    times[collective_names[i]] = {{"seconds", record.comm_times[i].seconds},
                                  {"exposed", record.comm_times[i].exposed},
                                  {"hidden", record.comm_times[i].hidden()}};
  report["communication_rank0"] = {
      {"backend", record.comm_backend}, {"progress", record.comm_progress}, {"times", times}};
  report["offload_rank0"] = {{"bytes_to_device", record.transfers.to_device},
                             {"bytes_to_host", record.transfers.to_host},
                             {"seconds", record.transfers.seconds}};
  Json seconds;
  for (std::size_t i = 0; i < verb_names.size(); ++i) seconds[verb_names[i]] = record.seconds_by_verb[i];
  seconds["optimizer"] = record.optimizer_seconds;
  seconds["evaluation"] = record.evaluation_seconds;
  report["seconds_rank0"] = seconds;
  Json phases;
  const checkpoint::Report& save = record.saves.last;
  for (std::size_t i = 0; i < save.phase_seconds.size(); ++i)
    phases[checkpoint::phase_names[i]] = save.phase_seconds[i];
  report["checkpoint"] = {
      {"last", record.last_checkpoint},
      {"async", config.checkpoint.async},
      {"saves", record.saves.count},
      {"seconds_of_all_saves", record.saves.seconds},
      {"main_thread_blocked_seconds", record.saves.blocked},
      {"step_seconds_beside_save", to_json(summarize(record.step_seconds_beside_save))},
      {"step_seconds_alone", to_json(summarize(record.step_seconds_alone))},
      {"layout", checkpoint::layout_names[static_cast<std::size_t>(config.checkpoint.options.layout)]},
      {"bytes", save.bytes},
      {"save_seconds", record.saves.last_seconds},
      {"gb_per_second", number_or_null(save.bytes / 1e9 / record.saves.last_seconds)},
      {"phase_seconds_rank0", phases}};
  report["deck"] = deck.effective();

  const std::string fresh = path + ".new";
  std::ofstream out(fresh);
  out << report.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
  std::error_code failure;
  if (out) std::filesystem::rename(fresh, path, failure);
  if (!out || failure) throw EnvironmentError(path + ": can't be written");
}

}  // namespace shardmark
