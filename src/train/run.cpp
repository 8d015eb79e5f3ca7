// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/run.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "comm/progress.hpp"
#include "core/device.hpp"
#include "core/runtime.hpp"
#include "core/watchdog.hpp"
#include "layers/gemm.hpp"
#include "train/async_save.hpp"
#include "train/ledger.hpp"
#include "train/metrics.hpp"
#include "train/output_folder.hpp"
#include "train/peak.hpp"
#include "train/placement.hpp"
#include "train/plan.hpp"
#include "train/precision_dispatch.hpp"
#include "train/preflight.hpp"
#include "train/report.hpp"
#include "train/state.hpp"
#include "train/stop.hpp"
#include "train/tables.hpp"

namespace shardmark {

namespace {

/// One training run: everything that is set up once, and the loop.
template <class T, class G>
class Run {
 public:
  Run(const Deck& deck, const RunConfig& config, Communicator& world, CommProgress progress,
      const RunOptions& options, StopListener& stop)
      : deck_(deck),
        config_(config),
        world_(world),
        stop_(stop),
        resume_(options.resume),
        dry_run_(options.dry_run),
        progress_style_(progress_style(options.progress, world.size())),
        shape_(sample_shape(config.model)) {
    record_.comm_progress = progress_names[static_cast<std::size_t>(progress)];
  }

  ExitCode operator()() {
    prepare();
    print_start();
    const std::string shortage = shortage_of_memory(world_, record_.memory_predicted);
    if (!dry_run_ && !shortage.empty()) throw Error(ExitCode::environment, shortage, true);
    if (!shortage.empty()) say("warning: {}\n", shortage);
    if (dry_run_) return ExitCode::success;
    set_up();
    start_or_resume();
    try {
      train();
    } catch (const StopRequest& request) {
      leave(request);
    } catch (const Error& error) {
      if (error.code() != ExitCode::invalid || !error.everywhere()) throw;
      record_.invalid = error.what();
      if (first()) fmt::print(stderr, "shardmark: {}\n", record_.invalid);
    }
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

  /// All that takes little memory.
  void prepare() {
    mesh_ = make_mesh(world_, config_.parallel.shard_size_for(world_.size()));
    describe_ranks(record_, world_, mesh_);
    record_.gemm = gemm_description(config_.precision.param);
    const Plan plan = make_plan(config_, mesh_);
    record_.memory_predicted = predict_memory(config_, plan);
    traffic_of_a_step_ = predict_traffic(config_, plan);
    record_.parameters_in = parameter_home_names[static_cast<std::size_t>(plan.residence.parameters)];
    record_.parameters = plan.parameter_count();
    record_.units = plan.layouts.size();
    world_.agree([&] { dataset_ = make_dataset(config_.data, shape_, config_.train.seed); });
    require_same_data(world_, dataset_->fingerprint());
    item_name_ = dataset_->has_tokens() ? "tokens" : "samples";
    const double samples = config_.train.global_batch, terms = plan.model.terms_per_sample;
    record_.items_per_step = dataset_->has_tokens() ? samples * terms : samples;
    record_.model_flops_per_step = plan.model.flops_per_sample * samples;
    record_.data = dataset_->describe();
    record_.lowest_loss = dataset_->lowest_loss();
  }

  void print_start() {
    say("{}\n{}", deck_.effective(), start_text(config_, world_, mesh_, record_, traffic_of_a_step_));
    for (const std::string& warning : placement_warnings(world_)) say("warning: {}\n", warning);
  }

  void set_up() {
    watchdog_.emplace(Watchdog::Options{.timeout = config_.train.timeout, .rank = world_.rank()},
                      [] { Runtime::abort(static_cast<int>(ExitCode::environment)); });
    trainer_ = std::make_unique<Trainer<T, G>>(config_, world_, mesh_, *dataset_);
    state_ = std::make_unique<TrainerState<T, G>>(*trainer_, mesh_, config_.checkpoint.async);
    saver_.emplace(world_, config_.checkpoint);
    trainer_->on_action([this](const Action& action) {
      watchdog_->enter(verb_names[static_cast<std::size_t>(action.verb)], trainer_->steps_done() + 1,
                       static_cast<int>(action.index));
      if (action.verb == Verb::begin_micro_batch) stop_.check(action.index == 0);
    });
    // What the first save may take, until one is seen: 100 MB/s are expected of any file system.
    stop_.saved(saves_at_a_stop() * 1e-8 * sizeof(Wide<T>) * static_cast<double>(record_.parameters) *
                static_cast<double>(1 + trainer_->optimizer_state().size()));
  }

  void start_or_resume() {
    watchdog_->enter("resume", 0);
    const std::optional<ResumePoint> point =
        resume(world_, config_.checkpoint.dir, resume_, [&](const ResumePoint& candidate) {
          world_.agree([&] { require_same_run(candidate, deck_, dataset_->fingerprint(), resume_); });
          checkpoint::Contents contents = state_->contents_to_load();
          checkpoint::load(world_, candidate.path, contents, config_.checkpoint.options);
          state_->finish_load(world_, candidate.path, contents);
        });
    output_folder_.emplace(world_, config_.output_dir);
    const bool chosen = config_.checkpoint.dir != config_.output_dir + "/checkpoints";
    if (config_.checkpoint.every > 0 || config_.checkpoint.at_start || chosen)
      checkpoint_folder_.emplace(world_, config_.checkpoint.dir);
    if (point) {
      const LossScale scale = loss_scale_after(*point, trainer_->loss_scale());
      trainer_->resume_at({point->get<std::uint64_t>("step"), point->get<std::uint64_t>("samples_seen"),
                           point->get<std::uint64_t>("skipped_steps")},
                          scale.factor(), scale.calm_steps());
      record_.last_checkpoint = point->path;
      for (const std::string& reason : point->passed_over) say("passed over: {}\n", reason);
      if (point->path == checkpoint_path(trainer_->steps_done())) saved_step_ = trainer_->steps_done();
      say("resumed {} at step {}\n", point->path, trainer_->steps_done());
      for (const std::string& path : set_aside_newer(world_, config_.checkpoint.dir, trainer_->steps_done()))
        say("set aside as {}: it is later than the step resumed from\n", path);
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
    const std::uint64_t first_step = record_.first_step = trainer_->steps_done();
    const bool evaluated = finish_evaluation();
    nothing_to_train_ = first_step >= config_.train.steps && !evaluated;
    if (nothing_to_train_)
      say("step {} of {} is done already: nothing to train\n", first_step, config_.train.steps);
    double timed = 0, in_gemm = 0;
    while (trainer_->steps_done() < config_.train.steps) {
      const auto traffic_before = measured_traffic(mesh_);
      const auto times_before = measured_times(mesh_);
      const double gemm_before = gemm_counter().seconds;
      const Stopwatch watch;
      StepMetrics metrics;
      const bool beside_save = saver_->in_flight();
      metrics.result = trainer_->step();
      metrics.seconds = world_.host_max(watch.seconds());
      stop_.stepped(metrics.seconds);
      metrics.step = trainer_->steps_done();
      metrics.items = static_cast<std::uint64_t>(record_.items_per_step);
      book_traffic(record_, traffic_before, measured_traffic(mesh_), traffic_of_a_step_,
                   metrics.result.passes);
      book_times(record_, times_before, measured_times(mesh_));
      ++record_.steps_taken;
      record_.steps_skipped += metrics.result.skipped ? 1 : 0;
      if (metrics.step - first_step > config_.train.timing_warmup && metrics.result.passes == 1) {
        record_.step_seconds.push_back(metrics.seconds);
        (beside_save ? record_.step_seconds_beside_save : record_.step_seconds_alone)
            .push_back(metrics.seconds);
        timed += metrics.seconds;
        in_gemm += gemm_counter().seconds - gemm_before;
        if (exec_is_host) record_.gemm_share = in_gemm / timed;
      }
      record_.final_loss = metrics.result.loss;
      check_replicas(metrics.step);
      try {
        if (is_due(config_.train.eval_every)) evaluate(metrics);
      } catch (const StopRequest&) {
        note(metrics);
        throw;
      }
      note(metrics);
      require_finite_validation(metrics);
      note_save(saver_->poll());
      if (is_due(config_.checkpoint.every)) save();
    }
  }

  /// Something that is done each so many steps, and at the end, is due after the step that is done.
  bool is_due(std::uint64_t every) const {
    const std::uint64_t step = trainer_->steps_done();
    return every > 0 && (step % every == 0 || step == config_.train.steps);
  }

  void note(const StepMetrics& metrics) {
    watchdog_->enter("write metrics", metrics.step);
    world_.agree([&] {
      if (first()) metrics_->write(metrics);
    });
    if (first()) progress_->show(metrics);
  }

  /// Makes up for an evaluation in which an earlier run was stopped, and says whether there was one.
  bool finish_evaluation() {
    const bool missing = first() && metrics_->lacks_validation() && is_due(config_.train.eval_every);
    if (world_.host_max(missing ? 1 : 0) == 0) return false;
    StepMetrics metrics;
    metrics.step = trainer_->steps_done();
    evaluate(metrics);
    world_.agree([&] {
      if (first() && metrics.validation_loss) metrics_->complete(*metrics.validation_loss);
    });
    require_finite_validation(metrics);
    return metrics.validation_loss.has_value();
  }

  /// Saves the state after the last whole step, where no file has it.
  void leave(const StopRequest& request) {
    say("stopping: {}\n", request.reason);
    record_.stopped_by = request.reason;
    trainer_->drop_step();
    if (saved_step_ != trainer_->steps_done()) save();
  }

  std::string checkpoint_path(std::uint64_t step) const {
    return config_.checkpoint.dir + "/" + checkpoint::file_name(step);
  }

  void check_replicas(std::uint64_t step) {
    const std::uint64_t every = config_.parallel.check_replicas_every;
    if (every == 0 || step % every != 0) return;
    const std::string name = trainer_->differing_replica();
    if (!name.empty())
      throw Error(ExitCode::invalid,
                  fmt::format("replicas differ after step {}: the unit of {} first", step, name), true);
    ++record_.replica_checks;
  }

  void evaluate(StepMetrics& metrics) {
    if (dataset_->samples(Split::validation) == 0) return;
    const Stopwatch watch;
    const double loss = trainer_->evaluate();
    record_.evaluation_seconds += watch.seconds();
    metrics.validation_loss = record_.validation_loss = loss;
  }

  void save() {
    watchdog_->enter("save", trainer_->steps_done());
    if (!checkpoint_folder_) checkpoint_folder_.emplace(world_, config_.checkpoint.dir);
    note_save(saver_->wait());
    const Stopwatch watch;
    if (!trainer_->parameters_are_finite())
      throw Error(ExitCode::invalid,
                  fmt::format("weights are not finite after step {}", trainer_->steps_done()), true);
    checkpoint::Contents contents = state_->contents_to_save(world_);
    contents.state["data_fingerprint"] = dataset_->fingerprint();
    contents.state["seed"] = config_.train.seed;
    contents.state["deck"] = deck_.effective();
    contents.state["digest"] = checkpoint::digest_of(contents.state);
    contents.run = provenance(world_.size(), config_, record_);
    saved_step_ = trainer_->steps_done();
    saver_->start(*saved_step_, std::move(contents), watch.seconds());
    if (!config_.checkpoint.async) note_save(saver_->wait());
  }

  /// The last one may have to wait for one in flight.
  double saves_at_a_stop() const { return config_.checkpoint.async ? 2 : 1; }

  /// To be told whether a save has ended.
  void note_save(bool ended) {
    if (!ended) return;
    const SaveRecord& saves = record_.saves = saver_->record();
    record_.last_checkpoint = checkpoint_path(saver_->step());
    stop_.saved(saves_at_a_stop() * saves.last_seconds);
    if (progress_)
      progress_->say(fmt::format("saved {} ({:.1f} MB in {:.2f} s)", record_.last_checkpoint,
                                 saves.last.bytes / 1e6, saves.last_seconds));
  }

  /// Compares what was predicted with what was measured, on every rank; the first difference found is the
  /// reason.
  std::string find_invalid() {
    if (!record_.invalid.empty()) return record_.invalid;
    std::string reason = difference_from_prediction(record_);
    if (record_.stopped_by.empty() && reason.empty()) reason = fault_of_losses(record_);
    if (!trainer_->parameters_are_finite()) reason = "weights are not finite";
    const int speaker = world_.host_max(reason.empty() ? 0 : world_.size() - world_.rank());
    return speaker == 0 ? "" : world_.host_broadcast(reason, world_.size() - speaker);
  }

  ExitCode finish() {
    watchdog_->enter("finish", trainer_->steps_done());
    note_save(saver_->wait());
    const bool stopped = !record_.stopped_by.empty();
    record_.steps = trainer_->steps_done();
    book_memory(record_, ledger_);
    record_.transfers = trainer_->transfers();
    record_.loss_scale = trainer_->loss_scale().factor();
    record_.skipped_steps = trainer_->position().skipped_steps;
    record_.seconds_by_verb = trainer_->seconds();
    record_.optimizer_seconds = trainer_->optimizer_seconds();
    record_.peak_resident = peak_resident_bytes();
    if (config_.train.peak_flops > 0 || !stopped)
      record_.peak_flops = world_.host_sum(
          config_.train.peak_flops > 0 ? config_.train.peak_flops : measure_gemm_peak<T>(trainer_->exec()));
    const std::string invalid = find_invalid();
    record_.result =
        !invalid.empty() ? "INVALID: " + invalid
        : stopped ? fmt::format("STOPPED step={} checkpoint={}", record_.steps, record_.last_checkpoint)
                  : "VALID";
    world_.agree([&] {
      const std::string path = config_.output_dir + "/report.json";
      if (first() && !(nothing_to_train_ && std::filesystem::exists(path)))
        write_report(path, deck_, config_, record_, item_name_);
    });
    say("{}", nothing_to_train_ ? "" : account_text(record_, item_name_));
    say("report {}/report.json\n", config_.output_dir);
    if (!record_.last_checkpoint.empty())
      say("look at the last checkpoint: h5ls -r {}\n", record_.last_checkpoint);
    say("FOM: {}\n", figure_text(record_, item_name_));
    say("RESULT: {}\n", record_.result);
    return !invalid.empty() ? ExitCode::invalid : stopped ? ExitCode::stopped : ExitCode::success;
  }

  const Deck& deck_;
  const RunConfig& config_;
  Communicator& world_;
  StopListener& stop_;
  const ResumeOptions& resume_;
  bool dry_run_;
  ProgressStyle progress_style_;
  SampleShape shape_;
  std::optional<Watchdog> watchdog_;
  std::optional<OutputFolder> output_folder_, checkpoint_folder_;
  TrafficByKind traffic_of_a_step_ = {};
  MemoryLedger ledger_;  // before everything that it counts
  Mesh mesh_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<Trainer<T, G>> trainer_;
  std::unique_ptr<TrainerState<T, G>> state_;
  std::optional<AsyncSave> saver_;  // after what it reads, so that it goes first
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<Progress> progress_;
  std::string item_name_;
  bool nothing_to_train_ = false;
  std::optional<std::uint64_t> saved_step_;  ///< the newest one in checkpoint.dir
  RunRecord record_;
};

}  // namespace

ExitCode run_training(const RunOptions& options) {
  const auto bootstrap = make_world_communicator("mpi");
  std::optional<double> deadline;
  if (options.deadline) deadline = parse_deadline(*options.deadline, wall_clock());
  StopListener stop(*bootstrap, deadline);
  Deck deck = read_deck(*bootstrap, options.deck, options.overrides).with({});
  const RunConfig config = read_run_config(deck);
  CommOptions comm = config.comm;
  comm.progress = resolve_progress(config.comm_progress, *bootstrap);
  try {
    const auto world = make_world_communicator(config.comm_backend, comm);
    require_own_devices(*world, device_uuid(), config.comm_share_device);
    choose_gemm(config.precision.param, config.precision.gemm, config.precision.tf32);
    return with_precision(config.precision, [&]<class T, class G>() {
      return Run<T, G>(deck, config, *world, comm.progress, options, stop)();
    });
  } catch (const DeckError& error) {
    throw DeckError(deck.locate(error.what()));
  } catch (const Error& error) {
    throw Error(error.code(), deck.locate(error.what()), error.everywhere());
  }
}

}  // namespace shardmark
