// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>

#include "checkpoint/format.hpp"
#include "train/config.hpp"

namespace shardmark {

/// What the saves of a run took so far. Seconds are the slowest rank's.
struct SaveRecord {
  std::uint64_t count = 0;
  checkpoint::Report last;  ///< of the last save, this rank's
  double last_seconds = 0;  ///< of the last save, snapshot included
  double seconds = 0;       ///< of all of them
  double blocked = 0;       ///< in which the main threads did nothing but take snapshots, save and wait
};

/// [Note: Asynchronous save] With checkpoint.async a thread writes a snapshot while training goes on. It uses
/// a communicator of its own, so that its collectives never mix with those of the training, and plain loops:
/// it never calls Kokkos. At most one save is in flight, so all HDF5 calls of the process come from one
/// thread at a time: the main thread calls HDF5 only before the first save. How a save ended is learnt in
/// poll() and wait(), which all ranks call at the same places; there a failed one throws on all ranks alike.
class AsyncSave {
 public:
  /// Without config.async, start() itself does the work. Collective.
  AsyncSave(const Communicator& world, const CheckpointConfig& config);
  /// Waits for the save in flight.
  ~AsyncSave();
  AsyncSave(const AsyncSave&) = delete;
  AsyncSave& operator=(const AsyncSave&) = delete;

  /// Starts a save, where none is in flight. The memory of the pieces stays as it is until the save has
  /// ended. Collective.
  void start(std::uint64_t step, checkpoint::Contents contents, double snapshot_seconds);

  bool in_flight() const { return in_flight_; }
  std::uint64_t step() const { return step_; }  ///< of the save that was started last

  /// Whether a save has ended on all ranks since the last call; does not wait. Collective.
  bool poll();
  /// The same, for a save that may still be in flight. Collective.
  bool wait();

  const SaveRecord& record() const { return record_; }

 private:
  void write() noexcept;

  const Communicator& world_;
  const CheckpointConfig& config_;
  std::unique_ptr<Communicator> own_;  ///< of the writing thread
  SaveRecord record_;
  bool in_flight_ = false;
  std::uint64_t step_ = 0;
  checkpoint::Contents contents_;
  double snapshot_seconds_ = 0;

  // Written by the thread, read once it has ended.
  checkpoint::Report report_;
  std::exception_ptr error_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace shardmark
