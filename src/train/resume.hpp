// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format.hpp"
#include "core/deck.hpp"
#include "core/error.hpp"
#include "train/loss_scale.hpp"

namespace shardmark {

/// What the command line says about going on from a checkpoint.
struct ResumeOptions {
  std::string from;  ///< empty: a fresh run; "auto": the newest checkpoint of the folder, if any; else a file
  bool allow_new_data = false;
  bool skip_damaged = false;
};

/// A file to resume from, with its /state.
struct ResumePoint {
  std::string path;
  std::map<std::string, checkpoint::Value> state;
  std::vector<std::string> passed_over;  ///< why newer ones were not taken

  /// Throws, on all ranks alike, where /state has no such key of type V.
  template <class V>
  const V& get(const std::string& key) const {
    const auto it = state.find(key);
    if (it == state.end() || !std::holds_alternative<V>(it->second))
      throw Error(ExitCode::environment, path + ": /state/" + key + " is missing or of another type", true);
    return std::get<V>(it->second);
  }
};

/// Resumes as the options say: calls load(point) for the file named or for the newest one of the folder.
/// Returns the point that was loaded, or nothing for a fresh start. Collective. Throws DeckError where a
/// fresh run meets a folder with checkpoints. A file whose opening or loading throws EnvironmentError is
/// damaged: the error is passed on with the path of the next older file, or with skip_damaged that one is
/// tried.
std::optional<ResumePoint> resume(const Communicator& world, const std::string& folder,
                                  const ResumeOptions& options,
                                  const std::function<void(const ResumePoint&)>& load);

/// Renames the checkpoints of `folder` that are later than `step` to <name>.abandoned, so that they are
/// neither resumed from nor counted; nothing is lost. Returns their paths. Collective.
std::vector<std::string> set_aside_newer(const Communicator& world, const std::string& folder,
                                         std::uint64_t step);

/// The loss scale to go on with: the stored one where both runs are fp16; else `own`, which the deck gives.
LossScale loss_scale_after(const ResumePoint& point, LossScale own);

/// Throws DeckError, naming each key, where the deck differs from the checkpoint's in keys that must match,
/// or where the data do and allow_new_data is off. Of the precisions only fp64 against another is a
/// difference.
void require_same_run(const ResumePoint& point, const Deck& deck, std::uint64_t data_fingerprint,
                      const ResumeOptions& options);

}  // namespace shardmark
