// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.hpp"

#include <exception>

namespace shardmark {

void Communicator::agree(const std::function<void()>& action) const {
  int code = 0;
  std::string message;
  try {
    action();
  } catch (const Error& error) {
    code = static_cast<int>(error.code());
    message = error.what();
  } catch (const std::exception& error) {
    code = static_cast<int>(ExitCode::environment);
    message = error.what();
  }
  // The lowest failing rank has the highest urgency.
  const int urgency = host_max(code == 0 ? 0 : size() - rank());
  if (urgency == 0) return;
  const int speaker = size() - urgency;
  message = host_broadcast(message, speaker);
  throw Error(static_cast<ExitCode>(std::stoi(host_broadcast(std::to_string(code), speaker))), message, true);
}

}  // namespace shardmark
