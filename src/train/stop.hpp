// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "comm/communicator.hpp"

namespace shardmark {

/// Thrown on all ranks alike, at the start of a micro-batch: the run is to save and to leave.
struct StopRequest {
  std::string reason;  ///< "SIGUSR1", "SIGTERM" or "deadline"
};

/// The moment, in Unix seconds, that `text` names: Unix seconds, a local time like 2026-01-31T18:30:00 (as
/// squeue prints it), or +SECONDS from `now`. Throws DeckError.
double parse_deadline(const std::string& text, double now);

/// Unix seconds.
double wall_clock();

/// Notes SIGUSR1 and SIGTERM from now on to the end of the process, for a StopListener that comes later: MPI
/// may take long to start and to end, in which a signal would kill.
void note_signals();

/// Watches for SIGUSR1, SIGTERM and a deadline while it lives. A signal on one rank stops all: every rank
/// joins check() at the start of each micro-batch, so that all of them leave the schedule at the same place.
/// One at a time.
class StopListener {
 public:
  /// `deadline` in Unix seconds. Collective.
  StopListener(const Communicator& world, std::optional<double> deadline);
  ~StopListener();
  StopListener(const StopListener&) = delete;
  StopListener& operator=(const StopListener&) = delete;

  /// Throws StopRequest where any rank got a signal, or where the time that is left before the deadline may
  /// not do for what comes before the next check, and a save. Collective: one all-reduce of an integer.
  void check(bool begins_step);

  /// What a step and a save took; the deadline leaves room for the longest ones.
  void stepped(double seconds);
  void saved(double seconds);

  /// Seconds before the deadline at which a run stops: 1 + 1.25 x (longest save + longest time between two
  /// checks, or longest step where one is about to begin).
  double margin(bool begins_step) const;

 private:
  const Communicator& world_;
  std::optional<double> deadline_;
  double longest_step_ = 0, longest_save_ = 0, longest_gap_ = 0;
  double last_check_ = 0;  ///< wall clock; 0 = no check since the last save
};

}  // namespace shardmark
