// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "comm/communicator.hpp"
#include "commands.hpp"
#include "train/report.hpp"

namespace shardmark {

Command add_info(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "print JSON");
  return [json] {
    const auto world = make_world_communicator("mpi");
    const auto build = describe_build();
    if (world->rank() != 0) return ExitCode::success;
    if (*json) {
      fmt::print("{}\n", build.dump(2));
    } else {
      for (const auto& [key, value] : build.items())
        fmt::print("{:<16} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
    }
    return ExitCode::success;
  };
}

}  // namespace shardmark
