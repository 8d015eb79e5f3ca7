// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

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
  Dtype param = Dtype::fp32;   ///< compute and all-gather: fp32 or fp64
  Dtype reduce = Dtype::fp32;  ///< reduction of gradients: the same as param
};

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
};

/// The [checkpoint] section.
struct CheckpointConfig {
  std::string dir;          ///< empty: <output.dir>/checkpoints
  std::uint64_t every = 0;  ///< steps between saves and at the end, 0 = none
  bool at_start = false;    ///< also step 0
  std::size_t keep = 0;     ///< newest files kept, 0 = all
  bool collective = false;  ///< transfer = "collective"
  bool check_free_space = true;
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
  std::string output_dir;
};

/// Reads every section and refuses unknown keys.
RunConfig read_run_config(Deck& deck);

/// The keys whose values a resumed run must share with the checkpoint, by section or key; the rest may
/// change.
bool must_match_on_resume(const std::string& key);

}  // namespace shardmark
