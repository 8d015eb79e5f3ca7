// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/communicator.hpp"

namespace shardmark {

/// A folder that this run alone writes to while it lives. Rank 0 makes it, and holds a lock on a file in it
/// that the system gives back whatever ends the process.
class OutputFolder {
 public:
  /// Collective. Throws EnvironmentError on all ranks where the folder can't be made or written to, where
  /// another run has it, or where a rank does not see what rank 0 writes there.
  OutputFolder(const Communicator& world, const std::string& path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  int lock_ = -1;
};

}  // namespace shardmark
