// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/format.hpp"
#include "core/dtype.hpp"
#include "data/dataset.hpp"
#include "model/model.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "sharding/strategy.hpp"

namespace shardmark {

class Deck;

/// The [precision] section.
struct PrecisionConfig {
  Dtype param = Dtype::fp32;            ///< compute and all-gather: fp32, fp64, bf16 or fp16
  Dtype reduce = Dtype::fp32;           ///< gradients and their reduction: that of the masters, or bf16
  Dtype master = Dtype::fp32;           ///< master weights, optimizer state, norms: fp64 with fp64, else fp32
  std::string gemm;                     ///< "auto", "native" or "emulated"
  bool tf32 = false;                    ///< fp32 products may round what they read to TF32
  double loss_scale = 0;                ///< fp16: first factor of the loss
  std::uint64_t loss_scale_growth = 0;  ///< fp16: steps without overflow after which the factor doubles
};

enum class OnNonfinite { stop, skip };

/// The [train] section.
struct TrainConfig {
  std::uint64_t steps = 0;
  std::uint64_t global_batch = 0;  ///< samples of all ranks in a step
  std::size_t micro_batch = 0;     ///< samples of a rank that are computed at once
  std::uint64_t seed = 0;
  std::uint64_t eval_every = 0;     ///< steps between evaluations, 0 = none
  std::uint64_t log_every = 0;      ///< steps between progress lines
  double peak_flops = 0;            ///< FLOP/s of one rank that MFU refers to, 0 = measured by a GEMM
  std::uint64_t timing_warmup = 0;  ///< first steps that rates leave out
  std::size_t recompute_every = 0;  ///< every k-th block is computed again in the backward pass, 0 = none
  std::size_t head_rows = 0;        ///< rows of logits that exist at a time
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  double timeout = 0;  ///< seconds without progress after which the job ends, 0 = never
};

/// The [checkpoint] section.
struct CheckpointConfig {
  std::string dir;          ///< empty: <output.dir>/checkpoints
  std::uint64_t every = 0;  ///< steps between saves and at the end, 0 = none
  bool at_start = false;    ///< also step 0
  std::size_t keep = 0;     ///< newest files kept, 0 = all
  bool async = false;       ///< a thread writes a snapshot while training goes on
  checkpoint::Options options;
};

/// A whole deck, read and checked.
struct RunConfig {
  ModelConfig model;
  ParallelConfig parallel;
  PrecisionConfig precision;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  DataConfig data;
  TrainConfig train;
  CheckpointConfig checkpoint;
  std::string comm_backend;
  std::string comm_progress;  ///< "auto", "wait" or "worker"
  CommOptions comm;           ///< all but the progress
  bool comm_share_device = false;
  std::string output_dir;

  ActivationConfig activations() const { return {train.micro_batch, train.recompute_every, train.head_rows}; }
};

/// Reads every section and refuses unknown keys.
RunConfig read_run_config(Deck& deck);

/// The keys whose values a resumed run must share with the checkpoint, by section or key; the rest may
/// change.
bool must_match_on_resume(const std::string& key);

}  // namespace shardmark
