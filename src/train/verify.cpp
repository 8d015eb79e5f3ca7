// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/verify.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "core/device.hpp"
#include "core/rng.hpp"
#include "layers/gemm.hpp"
#include "train/precision_dispatch.hpp"
#include "train/preflight.hpp"
#include "train/state.hpp"

namespace shardmark {

namespace {

/// A trainer with all that it stands on. Everything is computed in double, so that differences are faults.
struct Bench {
  RunConfig config;
  Mesh mesh;
  Trainer<double> trainer;

  Bench(const DeckSource& source, const Communicator& ranks, const Dataset& dataset,
        const std::vector<std::string>& overrides)
      : config(config_of(source, overrides)),
        mesh(make_mesh(ranks, config.parallel.shard_size_for(ranks.size()))),
        trainer(config, ranks, mesh, dataset) {}

  static RunConfig config_of(const DeckSource& source, std::vector<std::string> overrides) {
    for (const char* fixed :
         {"precision.param=fp64", "precision.reduce=auto", "precision.gemm=auto", "precision.tf32=false"})
      overrides.push_back(fixed);
    Deck deck = source.with(overrides);
    return read_run_config(deck);
  }
};

/// What a deck says of its own strategy may not go with another.
std::vector<std::string> of_strategy(const std::string& name, const std::string& shard_size = "0") {
  return {"parallel.strategy=" + name, "parallel.shard_size=" + shard_size,
          "parallel.offload=none",     "parallel.reshard_after_forward=auto",
          "parallel.accumulate=auto",  "parallel.unshard=auto"};
}

/// Of what collectives are given: small whole numbers, exact in every type and order of addition.
template <class T>
T sent(int rank, std::size_t i) {
  return static_cast<T>(static_cast<double>((7 * i + 3 * static_cast<std::size_t>(rank)) % 11));
}

class Verifier {
 public:
  Verifier(const Communicator& world, const VerifyOptions& options)
      : world_(world),
        deck_(read_deck(world, options.deck, options.overrides)),
        config_(Bench::config_of(deck_, {})) {
    Deck own = deck_.with({"precision.loss_scale=1024"});
    own_config_ = read_run_config(own);
    choose_gemm(own_config_.precision.param, own_config_.precision.gemm, own_config_.precision.tf32);
    dataset_ = make_dataset(config_.data, sample_shape(config_.model), config_.train.seed);
  }

  ExitCode operator()() {
    if (world_.rank() == 0)
      fmt::print("verify at {} ranks, in double precision but where another one is named\n", world_.size());
    require_memory(world_, predicted());
    check("collectives, fp32", [&] { return collectives<float>(); });
    check("collectives, fp64", [&] { return collectives<double>(); });
    check("collectives, bf16", [&] { return collectives<bf16>(); });
    check("gradient against differences", [&] { return gradient(); });
    if (own_config_.precision.param != Dtype::fp64)
      check(fmt::format("gradient in {} against fp64", name_of(own_config_.precision.param)),
            [&] { return own_precision(); });
    for (const char* strategy : {"ddp", "zero1", "zero2", "zero3", "hybrid"})
      check(std::string("losses of ") + strategy, [&] { return losses(strategy); });
    check("save, load, go on", [&] { return round_trip(); });
    check(fmt::format("reshard {} -> 1 -> {}", world_.size(), world_.size()), [&] { return reshard(); });
    if (world_.rank() == 0)
      fmt::print("MPI sees device memory: {}\n{} of {} checks failed\n", mpi_is_gpu_aware() ? "yes" : "no",
                 failed_, done_);
    return failed_ == 0 ? ExitCode::success : ExitCode::invalid;
  }

 private:
  struct Outcome {
    bool passed;
    std::string figures;
  };

  MemoryBytes predicted() const {
    // Two trainers live at a time, one of them the whole model on every rank.
    RunConfig whole = config_;
    for (const Strategy& strategy : strategies)
      if (strategy.name == std::string("ddp")) whole.parallel.strategy = strategy;
    MemoryBytes bytes = predict_memory(whole, make_plan(whole, world_.size(), 1));
    for (std::uint64_t& part : bytes) part *= 2;
    return bytes;
  }

  void check(const std::string& name, const std::function<Outcome()>& run) {
    Outcome outcome = run();
    const bool passed = world_.host_max(outcome.passed ? 0 : 1) == 0;
    ++done_;
    failed_ += passed ? 0 : 1;
    if (world_.rank() != 0) return;
    fmt::print("{:<32} {}  {}\n", name, passed ? "PASSED" : "FAILED", outcome.figures);
    std::fflush(stdout);
  }

  template <class T>
  Outcome collectives() const {
    const Exec exec;
    const std::size_t slice_length = 12345;
    const auto group = world_.split(0, world_.rank());
    const int P = world_.size();
    const std::size_t n = slice_length * P;
    const auto buffer = group->template allocate<T>(n, "shardmark::verify::buffer");
    const auto part = group->template allocate<T>(slice_length, "shardmark::verify::part");
    const auto host = Kokkos::create_mirror_view(Kokkos::HostSpace(), buffer.view);
    const auto host_part = Kokkos::create_mirror_view(Kokkos::HostSpace(), part.view);
    std::size_t wrong = 0;
    const auto set = [&] {
      for (std::size_t i = 0; i < n; ++i) host(i) = sent<T>(world_.rank(), i);
      Kokkos::deep_copy(buffer.view, host);
    };
    const auto expect = [&](const auto& view, std::size_t first, const auto& value) {
      for (std::size_t i = 0; i < view.extent(0); ++i)
        wrong += static_cast<double>(view(i)) != value(first + i) ? 1 : 0;
    };
    const auto sum = [&](std::size_t i) {
      double total = 0;
      for (int r = 0; r < P; ++r) total += static_cast<double>(sent<T>(r, i));
      return total;
    };
    set();
    group->start_all_gather(exec, buffer.view).wait();
    Kokkos::deep_copy(host, buffer.view);
    expect(host, 0, [&](std::size_t i) {
      return static_cast<double>(sent<T>(static_cast<int>(i / slice_length), i));
    });
    set();
    group->start_reduce_scatter(exec, buffer.view, part.view).wait();
    Kokkos::deep_copy(host_part, part.view);
    expect(host_part, world_.rank() * slice_length, sum);
    set();
    group->start_all_reduce(exec, buffer.view).wait();
    Kokkos::deep_copy(host, buffer.view);
    expect(host, 0, sum);
    set();
    group->start_broadcast(exec, buffer.view, P - 1).wait();
    Kokkos::deep_copy(host, buffer.view);
    expect(host, 0, [&](std::size_t i) { return static_cast<double>(sent<T>(P - 1, i)); });
    wrong = world_.host_sum(wrong);
    return {wrong == 0, fmt::format("{} wrong of {} values", wrong, (3 * n + slice_length) * P)};
  }

  /// The derivative of the loss along a random direction of length 1: by the gradient, and by central
  /// differences extrapolated once (Richardson). The error refers to the slope that a gradient of this length
  /// has on average, as that along one direction may be near zero.
  Outcome gradient() const {
    Bench bench(deck_, world_, *dataset_, of_strategy("zero3"));
    Trainer<double>& trainer = bench.trainer;
    trainer.loss_and_gradients();
    const auto [slope_part, squares_part] = along_direction(trainer, 0);
    const double slope = world_.host_sum(slope_part);
    const double elements = static_cast<double>(trainer.plan().parameter_count());
    const double expected_slope = std::sqrt(world_.host_sum(squares_part) / elements);
    const auto difference = [&](double step) {
      along_direction(trainer, step);
      const double above = trainer.loss();
      along_direction(trainer, -2 * step);
      const double below = trainer.loss();
      along_direction(trainer, step);
      return (above - below) / (2 * step);
    };
    // A relu has a kink, over which the fewer units step the smaller h is.
    const double h = config_.model.kind == "mlp" ? 1e-6 : 1e-4,
                 expected = (4 * difference(h / 2) - difference(h)) / 3;
    const double error = std::abs(slope - expected) / expected_slope;
    return {error < 1e-6,
            fmt::format("slope {:.9g}, differences {:.9g}, error of a typical slope {:.1e} (below 1e-6)",
                        slope, expected, error)};
  }

  /// Moves the weights by `step` along a direction of about length 1 that depends on names and indices only;
  /// returns the gradient's part along it, and the gradient's square, of this rank's shards.
  static std::pair<double, double> along_direction(Trainer<double>& trainer, double step) {
    const double length = std::sqrt(static_cast<double>(trainer.plan().parameter_count()));
    double dot = 0, squares = 0;
    for (auto& unit : trainer.units()) {
      const Vector<double> device = unit.masters().bring(trainer.exec());
      const auto weights = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
      const auto gradients = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), unit.gradient_shard());
      for (const Segment& segment : unit.segments()) {
        const std::uint64_t key = stream_key(17, unit.specs()[segment.parameter].name);
        for (std::size_t i = 0; i < segment.size(); ++i) {
          const double direction = Philox(key, segment.begin + i).normal() / length;
          weights(segment.offset + i) += step * direction;
          dot += gradients(segment.offset + i) * direction;
          squares += gradients(segment.offset + i) * gradients(segment.offset + i);
        }
      }
      Kokkos::deep_copy(device, weights);
      unit.masters().take_home(trainer.exec());
    }
    return {dot, squares};
  }

  /// The gradient in the deck's precision, by the products that a run uses, against that in double.
  Outcome own_precision() const {
    Bench exact(deck_, world_, *dataset_, {});
    exact.trainer.loss_and_gradients();
    const double error = with_precision(own_config_.precision, [&]<class T, class G>() {
      Mesh mesh = make_mesh(world_, own_config_.parallel.shard_size_for(world_.size()));
      Trainer<T, G> trainer(own_config_, world_, mesh, *dataset_);
      trainer.loss_and_gradients();
      double squares = 0, differences = 0;
      for (std::size_t u = 0; u < trainer.units().size(); ++u) {
        const auto to_host = [](const auto& view) {
          return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
        };
        const auto expected = to_host(exact.trainer.units()[u].gradient_shard());
        const auto found = to_host(trainer.units()[u].gradient_shard());
        for (const Segment& segment : trainer.units()[u].segments())
          for (std::size_t i = segment.offset; i < segment.offset + segment.size(); ++i) {
            squares += expected(i) * expected(i);
            const double value = static_cast<double>(found(i)) / trainer.loss_scale().factor();
            differences += (value - expected(i)) * (value - expected(i));
          }
      }
      return std::sqrt(world_.host_sum(differences) / world_.host_sum(squares));
    });
    const Dtype param = own_config_.precision.param;
    const double most = own_config_.precision.reduce == Dtype::bf16 || param == Dtype::bf16 ? 2e-2
                        : param == Dtype::fp16                                              ? 4e-3
                                                                                            : 1e-5;
    return {error < most, fmt::format("{}: relative difference of the gradients {:.1e} (below {:.0e})",
                                      gemm_description(param), error, most)};
  }

  /// Losses of three steps, and the gradient norm of the first, against ddp on one rank.
  Outcome losses(const std::string& strategy) {
    if (reference_.empty()) {
      const auto alone = world_.split(world_.rank(), 0);
      Bench bench(deck_, *alone, *dataset_, of_strategy("ddp"));
      reference_ = steps(bench.trainer, 3);
    }
    const std::vector<int> sizes = valid_shard_sizes(world_.size());
    const std::string size = strategy == "hybrid" ? std::to_string(sizes[sizes.size() / 2]) : "0";
    Bench bench(deck_, world_, *dataset_, of_strategy(strategy, size));
    const auto found = steps(bench.trainer, 3);
    double error = std::abs(found[0].grad_norm - reference_[0].grad_norm) / reference_[0].grad_norm;
    for (std::size_t i = 0; i < found.size(); ++i)
      error = std::max(error, std::abs(found[i].loss - reference_[i].loss) / std::abs(reference_[i].loss));
    return {error < 1e-10, fmt::format("loss {:.6f}, largest relative difference from ddp on one rank {:.1e} "
                                       "(below 1e-10)",
                                       found.back().loss, error)};
  }

  static std::vector<StepResult> steps(Trainer<double>& trainer, int n) {
    std::vector<StepResult> results;
    for (int i = 0; i < n; ++i) results.push_back(trainer.step());
    return results;
  }

  Outcome round_trip() const {
    const Folder folder(*this);
    Bench first(deck_, world_, *dataset_, {}), second(deck_, world_, *dataset_, {"train.seed=12345"});
    first.trainer.step();
    const std::string path = save(world_, first, folder.path);
    load(world_, second, path);
    const bool same = prints(world_, first) == prints(world_, second);
    const double a = first.trainer.step().loss, b = second.trainer.step().loss;
    return {same && a == b,
            fmt::format("fingerprints {}, next loss {:.17g} and {:.17g}", same ? "equal" : "differ", a, b)};
  }

  Outcome reshard() const {
    const Folder folder(*this), folder_of_one(*this);
    Bench many(deck_, world_, *dataset_, {}), again(deck_, world_, *dataset_, {"train.seed=12345"});
    many.trainer.step();
    const std::string path = save(world_, many, folder.path);
    std::string path_of_one;
    const auto alone = world_.split(world_.rank(), 0);
    if (world_.rank() == 0) {
      Bench one(deck_, *alone, *dataset_, {"train.seed=12345", "parallel.shard_size=0"});
      load(*alone, one, path);
      path_of_one = save(*alone, one, folder_of_one.path);
    }
    load(world_, again, world_.host_broadcast(path_of_one, 0));
    const bool same = prints(world_, many) == prints(world_, again);
    return {same, fmt::format("fingerprints of model and optimizer state {}", same ? "equal" : "differ")};
  }

  /// A temporary folder below output.dir that all ranks see.
  struct Folder {
    const Verifier& verifier;
    std::string path;
    std::vector<std::filesystem::path> made;  ///< by rank 0, outermost first
    explicit Folder(const Verifier& v) : verifier(v) {
      static int number = 0;
      path = verifier.config_.output_dir + "/verify-" + std::to_string(number++);
      verifier.world_.agree([&] {
        if (verifier.world_.rank() != 0) return;
        std::error_code failure;
        for (std::filesystem::path p = path; !p.empty() && !std::filesystem::exists(p); p = p.parent_path())
          made.insert(made.begin(), p);
        std::filesystem::create_directories(path, failure);
        if (failure) throw EnvironmentError(path + ": can't be made: " + failure.message());
      });
    }
    ~Folder() {
      verifier.world_.barrier();
      std::error_code ignored;
      if (verifier.world_.rank() == 0) std::filesystem::remove_all(path, ignored);
      for (; !made.empty(); made.pop_back()) std::filesystem::remove(made.back(), ignored);  // where empty
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
  };

  static std::string save(const Communicator& ranks, Bench& bench, const std::string& folder) {
    TrainerState<double> state(bench.trainer, bench.mesh);
    checkpoint::Contents contents = state.contents_to_save(ranks);
    const Position& position = bench.trainer.position();
    contents.state = {{"step", position.steps}, {"samples_seen", position.samples_seen}};
    checkpoint::save(ranks, folder, position.steps, contents, {}, 0);
    return folder + "/" + checkpoint::file_name(position.steps);
  }
  static void load(const Communicator& ranks, Bench& bench, const std::string& path) {
    TrainerState<double> state(bench.trainer, bench.mesh);
    checkpoint::Contents contents = state.contents_to_load();
    checkpoint::load(ranks, path, contents, {});
    state.finish_load(ranks, path, contents);
    bench.trainer.resume_at({std::get<std::uint64_t>(contents.state.at("step")),
                             std::get<std::uint64_t>(contents.state.at("samples_seen")), 0},
                            1, 0);
  }
  static std::map<std::string, std::uint64_t> prints(const Communicator& ranks, Bench& bench) {
    return TrainerState<double>(bench.trainer, bench.mesh).fingerprints(ranks);
  }

  const Communicator& world_;
  DeckSource deck_;
  RunConfig config_;      ///< in double
  RunConfig own_config_;  ///< in the deck's precision
  std::unique_ptr<Dataset> dataset_;
  std::vector<StepResult> reference_;
  int failed_ = 0, done_ = 0;
};

}  // namespace

ExitCode verify(const VerifyOptions& options) {
  const auto bootstrap = make_world_communicator("mpi");
  Deck deck = read_deck(*bootstrap, options.deck, options.overrides).with({});
  const RunConfig config = read_run_config(deck);
  const auto world = make_world_communicator(config.comm_backend, config.comm);
  require_own_devices(*world, device_uuid(), config.comm_share_device);
  return Verifier(*world, options)();
}

}  // namespace shardmark
