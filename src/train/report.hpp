// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checkpoint/format.hpp"
#include "core/deck.hpp"
#include "sharding/schedule.hpp"
#include "sharding/shard_tensor.hpp"
#include "train/async_save.hpp"
#include "train/config.hpp"
#include "train/ledger.hpp"
#include "train/metrics.hpp"

namespace shardmark {

/// Versions, back ends and machine: what `shardmark info` prints and each report holds.
nlohmann::ordered_json describe_build();

/// What a run leaves for its report.
struct RunRecord {
  std::vector<std::string> mesh;
  std::string data;
  std::uint64_t parameters = 0;
  std::string gemm;  ///< what multiplies matrices
  std::size_t units = 0;
  MemoryBytes memory_predicted = {}, memory_measured = {};  ///< of this rank
  PlaceBytes memory_by_place = {};                          ///< measured
  Transfers transfers;                                      ///< of offloading, this rank
  std::uint64_t peak_resident = 0;
  TrafficByKind traffic_predicted = {}, traffic_measured = {};  ///< a step's x steps
  std::vector<double> step_seconds;                             ///< timed steps only
  double items_per_step = 0;
  double model_flops_per_step = 0;
  double peak_flops = NAN;  ///< FLOP/s of all ranks that MFU refers to; NaN = unknown
  double gemm_share = NAN;  ///< of the timed steps' time, this rank; NaN where it can't be told
  double final_loss = NAN, validation_loss = NAN, lowest_loss = NAN;
  std::uint64_t first_step = 0;  ///< done before this run
  std::uint64_t steps = 0, skipped_steps = 0, replica_checks = 0;
  std::uint64_t steps_taken = 0, steps_skipped = 0;            ///< by this run
  double loss_scale = 1;                                       ///< after the last step
  std::array<double, verb_names.size()> seconds_by_verb = {};  ///< of this rank's main thread
  double optimizer_seconds = 0;
  double evaluation_seconds = 0;
  TimeByKind comm_times = {};  ///< of this rank's collectives in steps
  std::string comm_backend, comm_progress;
  std::string parameters_in;  ///< parameter_home_names
  std::string last_checkpoint;
  SaveRecord saves;
  std::vector<double> step_seconds_alone,
      step_seconds_beside_save;  ///< timed steps, those with one in flight
  std::string result;            ///< "VALID", "INVALID: reason" or "STOPPED step=N checkpoint=FILE"
  std::string invalid;           ///< what went wrong while it trained; empty where nothing did
  std::string stopped_by;        ///< a signal's name or "deadline"; empty where the run ended by itself
};

/// Adds the traffic of a step that is done; `predicted` is that of one pass over the global batch.
/// The back end, which says what is staged, and where each rank is. Collective.
void describe_ranks(RunRecord& record, const Communicator& world, const Mesh& mesh);
/// What this rank took until now.
void book_memory(RunRecord& record, const MemoryLedger& ledger);
void book_traffic(RunRecord& record, const TrafficByKind& before, const TrafficByKind& after,
                  const TrafficByKind& predicted, std::uint64_t passes);

/// Adds what the collectives of a step took.
void book_times(RunRecord& record, const TimeByKind& before, const TimeByKind& after);

/// Rates over the timed steps, as medians.
struct FigureOfMerit {
  Summary items_per_second;
  double model_flops_per_second = 0;
};
FigureOfMerit figure_of_merit(const RunRecord& record);

/// Where this rank's memory or traffic is not as predicted, or nothing.
std::string difference_from_prediction(const RunRecord& record);

/// Why a run that did all its steps has learnt nothing that can be relied on: a last loss that is not finite,
/// or no step that changed the weights; or nothing.
std::string fault_of_losses(const RunRecord& record);

/// /run of a checkpoint.
std::map<std::string, checkpoint::Value> provenance(int ranks, const RunConfig& config,
                                                    const RunRecord& record);

/// Writes report.json, whole or not at all. Throws EnvironmentError.
void write_report(const std::string& path, const Deck& deck, const RunConfig& config, const RunRecord& record,
                  const std::string& item_name);

}  // namespace shardmark
