// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/resume.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "core/fingerprint.hpp"
#include "train/config.hpp"

namespace shardmark {

namespace {

/// Key and literal of every line of Deck::effective().
std::map<std::string, std::string> parse_effective(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    if (line.front() == '[') {
      section = line.substr(1, line.size() - 2);
    } else if (const auto equals = line.find(" = "); equals != std::string::npos) {
      values[section + "." + line.substr(0, equals)] = line.substr(equals + 3);
    }
  }
  return values;
}

constexpr const char* in_double = "\"fp64\"";

/// The checkpoints of a folder, as rank 0 sees them.
std::vector<std::string> newest_first(const Communicator& world, const std::string& folder) {
  std::string listing;
  world.agree([&] {
    if (world.rank() != 0) return;
    for (const auto& found : checkpoint::scan(folder)) listing = found.path + "\n" + listing;
  });
  std::istringstream lines(world.host_broadcast(listing, 0));
  std::vector<std::string> paths;
  for (std::string path; std::getline(lines, path);) paths.push_back(path);
  return paths;
}

/// Whether a file lies in a folder, as rank 0 sees it.
bool lies_in(const Communicator& world, const std::string& file, const std::string& folder) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(file).parent_path();
  const bool there = std::filesystem::equivalent(parent.empty() ? "." : parent, folder, error);
  return world.host_broadcast(there && !error ? "yes" : "no", 0) == "yes";
}

}  // namespace

std::optional<ResumePoint> resume(const Communicator& world, const std::string& folder,
                                  const ResumeOptions& options,
                                  const std::function<void(const ResumePoint&)>& load) {
  const auto open_and_load = [&](const std::string& path) {
    ResumePoint point{path, checkpoint::read_state(world, path), {}};
    for (const char* needed : {"step", "samples_seen", "data_fingerprint"}) point.get<std::uint64_t>(needed);
    if (point.get<std::uint64_t>("digest") != checkpoint::digest_of(point.state))
      throw Error(ExitCode::environment, path + " is damaged: /state does not have the digest that it keeps",
                  true);
    world.agree([&] { checkpoint::require_step(path, point.get<std::uint64_t>("step")); });
    load(point);
    return point;
  };
  std::vector<std::string> paths = newest_first(world, folder);
  if (!options.from.empty() && options.from != "auto") {
    const ResumePoint point = open_and_load(options.from);
    if (paths.empty() || lies_in(world, options.from, folder)) return point;
    throw DeckError(
        fmt::format("{} holds checkpoints already ({}), of another run than {}: choose another output.dir or "
                    "checkpoint.dir",
                    folder, paths.front(), options.from));
  }
  if (!paths.empty() && options.from.empty())
    throw DeckError(
        fmt::format("{} holds checkpoints already ({}): go on from them with --resume auto, or choose "
                    "another output.dir or checkpoint.dir",
                    folder, paths.front()));
  std::vector<std::string> passed_over;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    try {
      ResumePoint point = open_and_load(paths[i]);
      point.passed_over = passed_over;
      return point;
    } catch (const Error& error) {
      const bool older = i + 1 < paths.size();
      if (error.code() != ExitCode::environment) throw;
      if (older && options.skip_damaged) {
        passed_over.push_back(error.what());
        continue;
      }
      throw Error(
          ExitCode::environment,
          older
              ? fmt::format(
                    "{}; older ones are there, {} next: --skip-damaged goes on from the newest that is whole",
                    error.what(), paths[i + 1])
              : fmt::format("{}; there is no older checkpoint", error.what()),
          true);
    }
  }
  return std::nullopt;
}

std::vector<std::string> set_aside_newer(const Communicator& world, const std::string& folder,
                                         std::uint64_t step) {
  std::vector<std::string> paths;
  world.agree([&] {
    if (world.rank() != 0) return;
    for (const auto& found : checkpoint::scan(folder)) {
      if (found.step <= step) continue;
      paths.push_back(checkpoint::set_aside(found.path));
    }
  });
  return paths;
}

LossScale loss_scale_after(const ResumePoint& point, LossScale own) {
  const auto stored = parse_effective(point.get<std::string>("deck"));
  const auto precision = stored.find("precision.param");
  if (precision != stored.end() && precision->second == "\"fp16\"")
    own.restore(point.get<double>("loss_scale"), point.get<std::uint64_t>("loss_scale_steps"));
  return own;
}

void require_same_run(const ResumePoint& point, const Deck& deck, std::uint64_t data_fingerprint,
                      const ResumeOptions& options) {
  const auto stored = parse_effective(point.get<std::string>("deck"));
  std::string differences;
  for (const auto& [key, value] : deck.values()) {
    const auto it = stored.find(key);
    const bool data = key.rfind("data.", 0) == 0;
    if (!must_match_on_resume(key) || (data && options.allow_new_data)) continue;
    if (key == "precision.param" && it != stored.end() && (value == in_double) == (it->second == in_double))
      continue;  // the tensors stored are fp32 with all but fp64
    if (it == stored.end() || it->second != value)
      differences += fmt::format("{}{} = {} (the checkpoint has {})", differences.empty() ? "" : ", ", key,
                                 value, it == stored.end() ? "no such key" : it->second);
  }
  const bool precision = differences.find("precision.param") != std::string::npos;
  if (!differences.empty())
    throw DeckError(
        fmt::format("{} is of another run: {}{}", point.path, differences,
                    precision ? "; fp32, bf16 and fp16 go on from each other, fp64 from fp64 alone" : ""));
  if (point.get<std::uint64_t>("data_fingerprint") != data_fingerprint && !options.allow_new_data)
    throw DeckError(
        fmt::format("{} was trained on other data (the contents of data.path differ): --allow-new-data "
                    "goes on with these",
                    point.path));
}

}  // namespace shardmark
