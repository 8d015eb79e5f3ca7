// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "layers/gemm.hpp"
#include "train/ledger.hpp"
#include "train/metrics.hpp"
#include "train/output_folder.hpp"
#include "train/peak.hpp"
#include "train/report.hpp"
#include "train/state.hpp"

namespace shardmark {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Deck read_deck(const Communicator& world, const RunOptions& options) {
  std::string text;
  world.agree([&] {
    if (world.rank() != 0) return;
    if (!std::filesystem::is_regular_file(options.deck))
      throw DeckError(options.deck + ": no such deck, or not a file");
    std::ifstream file(options.deck);
    std::stringstream content;
    content << file.rdbuf();
    if (!file || std::filesystem::is_directory(options.deck))
      throw DeckError(options.deck + ": no such deck, or not readable");
    text = content.str();
  });
  Deck deck(world.host_broadcast(text, 0), options.deck);
  for (const std::string& assignment : options.overrides) deck.set(assignment);
  return deck;
}

/// One training run: everything that is set up once, and the loop.
template <class T>
class Run {
 public:
  Run(const Deck& deck, const RunConfig& config, Communicator& world, const RunOptions& options)
      : deck_(deck),
        config_(config),
        world_(world),
        resume_(options.resume),
        progress_style_(progress_style(options.progress, world.size())),
        shape_(sample_shape(config.model)) {
    options_.collective = config.checkpoint.collective;
    options_.check_free_space = config.checkpoint.check_free_space;
    record_.final_loss = record_.validation_loss = std::numeric_limits<double>::quiet_NaN();
    record_.gemm_share = record_.peak_flops = std::numeric_limits<double>::quiet_NaN();
  }

  ExitCode operator()() {
    set_up();
    print_start();
    start_or_resume();
    train();
    return finish();
  }

 private:
  bool first() const { return world_.rank() == 0; }
  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) const {
    if (!first()) return;
    fmt::print(format, std::forward<Args>(args)...);
    std::fflush(stdout);
  }

  void set_up() {
    mesh_ = make_mesh(world_, config_.parallel.shard_size_for(world_.size()));
    record_.mesh = describe(world_, mesh_);
    world_.agree([&] { dataset_ = make_dataset(config_.data, shape_, config_.train.seed); });
    const std::string fingerprint = std::to_string(dataset_->fingerprint());
    const bool same_data = world_.host_broadcast(fingerprint, 0) == fingerprint;
    world_.agree([&] {
      if (!same_data)
        throw EnvironmentError(
            fmt::format("rank {} sees other data than rank 0: data.path must hold the same on all "
                        "nodes",
                        world_.rank()));
    });
    trainer_ = std::make_unique<Trainer<T>>(config_, world_, mesh_, *dataset_);
    state_ = std::make_unique<TrainerState<T>>(*trainer_, mesh_);
    traffic_of_a_step_ = predict_traffic(*trainer_, mesh_);
    const Model<T>& model = trainer_->model();
    item_name_ = dataset_->has_tokens() ? "tokens" : "samples";
    record_.items_per_step = static_cast<double>(config_.train.global_batch) *
                             (dataset_->has_tokens() ? static_cast<double>(model.terms_per_sample()) : 1.0);
    record_.model_flops_per_step = model.flops_per_sample() * static_cast<double>(config_.train.global_batch);
    record_.parameters = trainer_->parameter_count();
    record_.data = dataset_->describe();
    record_.lowest_loss = dataset_->lowest_loss();
    std::size_t padded = 0;
    for (const auto& unit : trainer_->units()) padded += unit.layout().total;
    record_.memory_predicted =
        predict_model_state(padded, sizeof(T), config_.parallel.strategy, mesh_.shard_size,
                            trainer_->optimizer().state_names().size());
  }

  void print_start() {
    say("{}\n", deck_.effective());
    say("strategy {}: {} ranks = {} replicas x {} shards; {}; back end {}\n", config_.parallel.strategy.name,
        world_.size(), mesh_.replicas, mesh_.shard_size, name_of(config_.precision.param), world_.backend());
    for (const std::string& line : record_.mesh) say("  {}\n", line);
    say("data {}\n", record_.data);
    std::uint64_t bytes = 0;
    for (std::uint64_t part : record_.memory_predicted) bytes += part;
    say("model {}: {} parameters in {} units; model state {:.1f} MB a rank\n", config_.model.kind,
        record_.parameters, trainer_->units().size(), bytes / 1e6);
    if (std::isfinite(record_.lowest_loss))
      say("lowest possible loss (entropy rate): {:.6f}\n", record_.lowest_loss);
  }

  void start_or_resume() {
    const std::optional<ResumePoint> point =
        resume(world_, config_.checkpoint.dir, resume_, [&](const ResumePoint& candidate) {
          world_.agree([&] { require_same_run(candidate, deck_, dataset_->fingerprint(), resume_); });
          checkpoint::Contents contents = state_->contents_to_load();
          checkpoint::load(world_, candidate.path, contents, options_);
          state_->finish_load(world_, candidate.path, contents);
        });
    output_folder_.emplace(world_, config_.output_dir);
    if (config_.checkpoint.every > 0 || config_.checkpoint.at_start)
      checkpoint_folder_.emplace(world_, config_.checkpoint.dir);
    if (point) {
      trainer_->resume_at(point->get<std::uint64_t>("step"), point->get<std::uint64_t>("samples_seen"));
      record_.last_checkpoint = point->path;
      say("resumed {} at step {}\n", point->path, trainer_->steps_done());
      for (const std::string& path : set_aside_newer(world_, config_.checkpoint.dir, trainer_->steps_done()))
        say("set aside {} as {}.abandoned: it is later than the step resumed from\n", path, path);
    } else if (!resume_.from.empty()) {
      say("nothing to resume in {}: starting at step 0\n", config_.checkpoint.dir);
    }
    world_.agree([&] {
      if (!first()) return;
      // A report tells of an earlier run, but stays where nothing is left to do.
      if (trainer_->steps_done() < config_.train.steps)
        std::filesystem::remove(config_.output_dir + "/report.json");
      const std::string deck = config_.output_dir + "/deck.toml";
      if (!(std::ofstream(deck) << deck_.effective() << std::flush))
        throw EnvironmentError(deck + ": can't be written");
      metrics_ = std::make_unique<MetricsFile>(config_.output_dir + "/metrics.jsonl", trainer_->steps_done(),
                                               item_name_);
    });
    if (first())
      progress_ = std::make_unique<Progress>(trainer_->steps_done(), config_.train.steps,
                                             config_.train.log_every, item_name_, progress_style_);
  }

  void train() {
    if (config_.checkpoint.at_start && trainer_->steps_done() == 0) save();
    const std::uint64_t first_step = trainer_->steps_done();
    nothing_to_train_ = first_step >= config_.train.steps;
    if (nothing_to_train_)
      say("step {} of {} is done already: nothing to train\n", first_step, config_.train.steps);
    double timed = 0, in_gemm = 0;
    while (trainer_->steps_done() < config_.train.steps) {
      const auto traffic_before = measured_traffic(mesh_);
      const double gemm_before = gemm_counter().seconds;
      const auto start = Clock::now();
      StepMetrics metrics;
      metrics.result = trainer_->step();
      metrics.seconds = world_.host_max(seconds_since(start));
      metrics.step = trainer_->steps_done();
      metrics.items = static_cast<std::uint64_t>(record_.items_per_step);
      count_traffic(traffic_before);
      if (metrics.step - first_step > config_.train.timing_warmup) {
        record_.step_seconds.push_back(metrics.seconds);
        timed += metrics.seconds;
        in_gemm += gemm_counter().seconds - gemm_before;
      }
      record_.final_loss = metrics.result.loss;
      const bool last = metrics.step == config_.train.steps;
      if (config_.train.eval_every > 0 && (metrics.step % config_.train.eval_every == 0 || last))
        evaluate(metrics);
      world_.agree([&] {
        if (first()) metrics_->write(metrics);
      });
      if (first()) progress_->show(metrics);
      if (config_.checkpoint.every > 0 && (metrics.step % config_.checkpoint.every == 0 || last)) save();
    }
    record_.steps = trainer_->steps_done();
    if (timed > 0 && exec_is_host) record_.gemm_share = in_gemm / timed;
  }

  void evaluate(StepMetrics& metrics) {
    if (dataset_->samples(Split::validation) == 0) return;
    const double loss = trainer_->evaluate();
    metrics.validation_loss = record_.validation_loss = loss;
  }

  void count_traffic(const std::array<Traffic, collective_names.size()>& before) {
    const auto after = measured_traffic(mesh_);
    const auto& predicted = traffic_of_a_step_;
    for (std::size_t i = 0; i < after.size(); ++i) {
      record_.traffic_measured[i].calls += after[i].calls - before[i].calls;
      record_.traffic_measured[i].bytes += after[i].bytes - before[i].bytes;
      record_.traffic_predicted[i].calls += predicted[i].calls;
      record_.traffic_predicted[i].bytes += predicted[i].bytes;
    }
  }

  void save() {
    const auto start = Clock::now();
    if (!trainer_->parameters_are_finite())
      throw Error(ExitCode::invalid,
                  fmt::format("weights are not finite after step {}", trainer_->steps_done()), true);
    checkpoint::Contents contents = state_->contents_to_save(world_);
    const std::uint64_t step = trainer_->steps_done();
    contents.state = {{"step", step},
                      {"optimizer_steps", step},
                      {"skipped_steps", std::uint64_t{0}},
                      {"samples_seen", trainer_->samples_seen()},
                      {"data_cursor", trainer_->samples_seen()},
                      {"data_fingerprint", dataset_->fingerprint()},
                      {"loss_scale", 1.0},
                      {"seed", config_.train.seed},
                      {"deck", deck_.effective()}};
    contents.state["digest"] = digest_of(contents.state);
    contents.run = {{"ranks", std::int64_t{world_.size()}},
                    {"strategy", std::string(config_.parallel.strategy.name)},
                    {"mesh", fmt::format("{}", fmt::join(record_.mesh, "\n"))},
                    {"time", std::int64_t{std::time(nullptr)}},
                    {"version", std::string(SHARDMARK_VERSION)}};
    const auto report =
        checkpoint::save(world_, config_.checkpoint.dir, step, contents, options_, config_.checkpoint.keep);
    record_.last_checkpoint = config_.checkpoint.dir + "/" + checkpoint::file_name(step);
    record_.save_seconds = world_.host_max(seconds_since(start));
    if (progress_)
      progress_->say(fmt::format("saved {} ({:.1f} MB in {:.2f} s)", record_.last_checkpoint,
                                 report.bytes / 1e6, record_.save_seconds));
  }

  /// Compares what was predicted with what was measured, on every rank; the first difference found is the
  /// reason.
  std::string find_invalid() {
    std::string reason;
    if (!trainer_->parameters_are_finite()) reason = "weights are not finite";
    for (std::size_t i = 0; i < record_.traffic_measured.size(); ++i)
      if (record_.traffic_measured[i].bytes != record_.traffic_predicted[i].bytes)
        reason = fmt::format("{} moved {} bytes, predicted {}", collective_names[i],
                             record_.traffic_measured[i].bytes, record_.traffic_predicted[i].bytes);
    for (MemoryClass kind : {MemoryClass::parameters, MemoryClass::gradients, MemoryClass::optimizer}) {
      const auto i = static_cast<std::size_t>(kind);
      const double measured = static_cast<double>(record_.memory_measured[i]);
      const double predicted = static_cast<double>(record_.memory_predicted[i]);
      if (std::abs(measured - predicted) > 0.05 * predicted)
        reason = fmt::format("{} take {} bytes, predicted {}", memory_class_names[i], measured, predicted);
    }
    const int speaker = world_.host_max(reason.empty() ? 0 : world_.size() - world_.rank());
    return speaker == 0 ? "" : world_.host_broadcast(reason, world_.size() - speaker);
  }

  ExitCode finish() {
    record_.memory_measured = ledger_.peak();
    record_.peak_resident = peak_resident_bytes();
    record_.peak_flops = world_.host_sum(
        config_.train.peak_flops > 0 ? config_.train.peak_flops : measure_gemm_peak<T>(trainer_->exec()));
    const std::string invalid = find_invalid();
    record_.result = invalid.empty() ? "VALID" : "INVALID: " + invalid;
    world_.agree([&] {
      const std::string path = config_.output_dir + "/report.json";
      if (first() && !(nothing_to_train_ && std::filesystem::exists(path)))
        write_report(path, deck_, config_, record_, item_name_);
    });
    const FigureOfMerit figure = figure_of_merit(record_);
    const Summary& rate = figure.items_per_second;
    if (rate.count > 0)
      say("{}/s over {} timed steps: median {:.1f}, min {:.1f}, max {:.1f}; share of time in GEMM {:.2f}\n",
          item_name_, rate.count, rate.median, rate.least, rate.most, record_.gemm_share);
    say("report {}/report.json\n", config_.output_dir);
    if (!record_.last_checkpoint.empty())
      say("look at the last checkpoint: h5ls -r {}\n", record_.last_checkpoint);
    if (rate.count > 0) {
      say("FOM: {}_per_second={:.1f} model_flops_per_second={:.3e} mfu={:.3f}\n", item_name_, rate.median,
          figure.model_flops_per_second, figure.model_flops_per_second / record_.peak_flops);
    } else {
      say("FOM: {}_per_second=n/a model_flops_per_second=n/a mfu=n/a\n", item_name_);
    }
    say("RESULT: {}\n", record_.result);
    return invalid.empty() ? ExitCode::success : ExitCode::invalid;
  }

  const Deck& deck_;
  const RunConfig& config_;
  Communicator& world_;
  const ResumeOptions& resume_;
  ProgressStyle progress_style_;
  SampleShape shape_;
  checkpoint::Options options_;
  std::optional<OutputFolder> output_folder_, checkpoint_folder_;
  std::array<Traffic, collective_names.size()> traffic_of_a_step_ = {};
  MemoryLedger ledger_;  // before everything that it counts
  Mesh mesh_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<Trainer<T>> trainer_;
  std::unique_ptr<TrainerState<T>> state_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<Progress> progress_;
  std::string item_name_;
  bool nothing_to_train_ = false;
  RunRecord record_;
};

}  // namespace

ExitCode run_training(const RunOptions& options) {
  const auto bootstrap = make_world_communicator("mpi");
  Deck deck = read_deck(*bootstrap, options);
  const RunConfig config = read_run_config(deck);
  const auto world = make_world_communicator(config.comm_backend);
  try {
    if (config.precision.param == Dtype::fp64) return Run<double>(deck, config, *world, options)();
    return Run<float>(deck, config, *world, options)();
  } catch (const DeckError& error) {
    throw DeckError(deck.locate(error.what()));
  } catch (const Error& error) {
    throw Error(error.code(), deck.locate(error.what()), error.everywhere());
  }
}

}  // namespace shardmark
