// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace shardmark {

/// Exit codes of the program.
enum class ExitCode : int {
  success = 0,      ///< done and VALID
  invalid = 1,      ///< INVALID or a failed check
  usage = 2,        ///< bad deck or arguments
  environment = 3,  ///< MPI, file system, device
  stopped = 75      ///< stopped by a signal or deadline after a checkpoint: run again
};

/// The one exception type: a sentence for the user and the code the program leaves with.
/// `everywhere` says that every rank throws the same error, so one rank prints it and all leave in order;
/// else the throwing rank prints it and aborts the job.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message, bool everywhere = false)
      : std::runtime_error(message), code_(code), everywhere_(everywhere) {}
  ExitCode code() const { return code_; }
  bool everywhere() const { return everywhere_; }

 private:
  ExitCode code_;
  bool everywhere_;
};

/// A deck or an argument is wrong. Decks are read alike by all ranks, so all ranks throw it.
struct DeckError : Error {
  explicit DeckError(const std::string& message) : Error(ExitCode::usage, message, true) {}
};

/// MPI, the file system or a device failed on this rank.
struct EnvironmentError : Error {
  explicit EnvironmentError(const std::string& message) : Error(ExitCode::environment, message) {}
};

}  // namespace shardmark
