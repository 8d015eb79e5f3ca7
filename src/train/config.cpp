// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/config.hpp"

#include <fmt/format.h>

#include <limits>

#include "comm/communicator.hpp"
#include "core/deck.hpp"
#include "train/loss_scale.hpp"

namespace shardmark {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

ModelConfig read_model(Deck& deck) {
  ModelConfig model;
  model.kind = deck.choice("model.kind", "gpt", {"gpt", "mlp"});
  // Upper limits keep every product of sizes below 2^63; tokens are 32-bit.
  model.layers = deck.integer("model.layers", 2, 1, 1 << 16);
  model.width = deck.integer("model.width", 64, 1, 1 << 20);
  model.heads = deck.integer("model.heads", 4, 1, 1 << 20);
  model.context = deck.integer("model.context", 64, 1, 1 << 20);
  model.vocab = deck.integer("model.vocab", 256, 1, std::numeric_limits<std::int32_t>::max());
  model.tie_embeddings = deck.boolean("model.tie_embeddings", true);
  model.sizes = deck.counts("model.sizes", {32, 64, 64, 8});
  return model;
}

PrecisionConfig read_precision(Deck& deck) {
  PrecisionConfig precision;
  const std::string param = deck.choice("precision.param", "fp32", {"fp32", "fp64", "bf16", "fp16"});
  const std::string reduce = deck.choice("precision.reduce", "auto", {"auto", "fp32", "fp64", "bf16"});
  precision.gemm = deck.choice("precision.gemm", "auto", {"auto", "native", "emulated"});
  precision.tf32 = deck.boolean("precision.tf32", false);
  precision.loss_scale = deck.real("precision.loss_scale", 65536, 1, LossScale::largest);
  precision.loss_scale_growth = deck.count("precision.loss_scale_growth", 2000, 1);

  for (Dtype dtype : {Dtype::fp32, Dtype::fp64, Dtype::bf16, Dtype::fp16})
    if (param == name_of(dtype)) precision.param = dtype;
  precision.master = precision.param == Dtype::fp64 ? Dtype::fp64 : Dtype::fp32;
  precision.reduce = reduce == "bf16" ? Dtype::bf16 : precision.master;
  const bool bf16_allowed = param == "fp32" || param == "bf16";
  if (reduce != "auto" && (reduce != name_of(precision.reduce) || (reduce == "bf16" && !bf16_allowed)))
    deck.fail("precision.reduce", fmt::format("with precision.param = {} it must be auto{} or {}", param,
                                              bf16_allowed ? ", bf16" : "", name_of(precision.master)));
  return precision;
}

OptimizerConfig read_optimizer(Deck& deck) {
  OptimizerConfig optimizer;
  optimizer.kind = deck.choice("optimizer.kind", "adamw", {"adamw", "sgd"});
  optimizer.lr = deck.real("optimizer.lr", 1e-3, 0, infinity);
  const auto betas = deck.reals("optimizer.betas", {0.9, 0.95}, 0, 1);
  optimizer.beta1 = betas[0];
  optimizer.beta2 = betas[1];
  optimizer.eps = deck.real("optimizer.eps", 1e-8, 1e-30, infinity);
  optimizer.momentum = deck.real("optimizer.momentum", 0.9, 0, 1);
  optimizer.weight_decay = deck.real("optimizer.weight_decay", 0.1, 0, infinity);
  optimizer.clip = deck.real("optimizer.clip", 1.0, 0, infinity);
  return optimizer;
}

ScheduleConfig read_schedule(Deck& deck) {
  ScheduleConfig schedule;
  schedule.kind = deck.choice("schedule.kind", "cosine", {"constant", "linear", "cosine"});
  schedule.warmup = deck.count("schedule.warmup", 5);
  schedule.min_lr = deck.real("schedule.min_lr", 0, 0, infinity);
  return schedule;
}

DataConfig read_data(Deck& deck) {
  DataConfig data;
  data.kind = deck.choice("data.kind", "bytes", {"bytes", "tokens", "markov", "teacher"});
  data.path = deck.texts("data.path", {"src"});
  data.validation = deck.real("data.validation", 0.05, 0, 0.9);
  data.validation_samples = deck.count("data.validation_samples", 64);
  data.states = deck.count("data.states", 32, 2);
  data.successors = deck.count("data.successors", 4, 1);
  return data;
}

TrainConfig read_train(Deck& deck) {
  TrainConfig train;
  train.steps = deck.count("train.steps", 20);
  train.global_batch = deck.integer("train.global_batch", 8, 1, 1 << 24);
  train.micro_batch = deck.integer("train.micro_batch", 4, 1, 1 << 16);
  train.seed = deck.count("train.seed", 1);
  train.eval_every = deck.count("train.eval_every", 10);
  train.log_every = deck.count("train.log_every", 1, 1);
  train.timing_warmup = deck.count("train.timing_warmup", 2);
  train.peak_flops = deck.real("train.peak_flops", 0, 0, infinity);
  const bool recompute = deck.choice("train.recompute", "none", {"none", "block"}) == "block";
  const std::size_t every = deck.integer("train.recompute_every", 1, 1, 1 << 16);
  train.recompute_every = recompute ? every : 0;
  train.head_rows = deck.integer("train.head_rows", exec_is_host ? 512 : 8192, 1, 1 << 30);
  train.on_nonfinite = deck.choice("train.on_nonfinite", "stop", {"stop", "skip"}) == "skip"
                           ? OnNonfinite::skip
                           : OnNonfinite::stop;
  train.timeout = deck.real("train.timeout", 1800, 0, infinity);
  return train;
}

CheckpointConfig read_checkpoint(Deck& deck) {
  CheckpointConfig config;
  config.dir = deck.text("checkpoint.dir", "");
  config.every = deck.count("checkpoint.every", 0);
  config.at_start = deck.boolean("checkpoint.at_start", false);
  config.keep = deck.count("checkpoint.keep", 2);
  config.async = deck.boolean("checkpoint.async", false);
  checkpoint::Options& options = config.options;
  const std::string layout = deck.choice("checkpoint.layout", "shared_file",
                                         {checkpoint::layout_names.begin(), checkpoint::layout_names.end()});
  if (layout == "file_per_rank") options.layout = checkpoint::Layout::file_per_rank;
  options.collective =
      deck.choice("checkpoint.transfer", "independent", {"independent", "collective"}) == "collective";
  if (options.collective && layout == "file_per_rank")
    deck.fail("checkpoint.transfer",
              "is for the layout shared_file; with file_per_rank it must be independent");
  options.fsync = deck.boolean("checkpoint.fsync", true);
  options.alignment = deck.integer("checkpoint.alignment", 0, 0, 1 << 30);
  options.mpi_info = deck.texts("checkpoint.mpi_info", {});
  for (const std::string& hint : options.mpi_info)
    if (!checkpoint::is_mpi_info(hint))
      deck.fail("checkpoint.mpi_info",
                "\"" + hint + "\" is not of the form key=value, as \"striping_factor=8\"");
  options.check_free_space = deck.boolean("checkpoint.check_free_space", true);
  return config;
}

}  // namespace

RunConfig read_run_config(Deck& deck) {
  RunConfig run;
  run.model = read_model(deck);
  run.parallel = read_parallel_config(deck);
  run.precision = read_precision(deck);
  run.optimizer = read_optimizer(deck);
  run.schedule = read_schedule(deck);
  run.data = read_data(deck);
  run.train = read_train(deck);
  run.checkpoint = read_checkpoint(deck);
  run.comm_backend = deck.choice("comm.backend", "auto", comm_backends());
  run.comm_progress = deck.choice("comm.progress", "auto", {"auto", "wait", "worker"});
  const std::string staging = deck.choice("comm.staging", "auto", {"auto", "never", "always"});
  run.comm.staging = staging == "auto"    ? Staging::automatic
                     : staging == "never" ? Staging::never
                                          : Staging::always;
  run.comm.timeout = run.train.timeout;
  run.comm_share_device = deck.boolean("comm.share_device", false);
  run.output_dir = deck.text("output.dir", "runs/out");
  if (run.output_dir.empty()) deck.fail("output.dir", "must name a folder");
  deck.check_unknown();

  if (run.schedule.min_lr > run.optimizer.lr)
    deck.fail("schedule.min_lr", fmt::format("must be at most optimizer.lr = {}", run.optimizer.lr));
  const bool regression = run.data.kind == "teacher";
  if (regression != (run.model.kind == "mlp"))
    deck.fail("data.kind", regression ? "needs model.kind = \"mlp\""
                                      : "needs model.kind = \"gpt\"; an mlp learns from \"teacher\"");
  if (run.model.kind == "mlp" && run.train.recompute_every > 0)
    deck.fail("train.recompute", "is for model.kind = \"gpt\"; an mlp needs \"none\"");
  if (run.checkpoint.dir.empty()) run.checkpoint.dir = run.output_dir + "/checkpoints";
  return run;
}

bool must_match_on_resume(const std::string& key) {
  if (key == "data.path") return false;
  return key.rfind("model.", 0) == 0 || key.rfind("data.", 0) == 0 || key == "train.seed" ||
         key == "optimizer.kind" || key == "precision.param";
}

}  // namespace shardmark
