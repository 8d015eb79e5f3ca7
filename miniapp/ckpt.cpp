// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/tools.hpp"
#include "comm/communicator.hpp"
#include "commands.hpp"

namespace shardmark {
namespace {

using namespace checkpoint;

/// What the command line says; each subcommand reads its own part.
struct Arguments {
  std::string path, other;
  bool json = false;
  double tolerance = 0;
  std::string layout;
  std::uint64_t ranks = 0;
  std::size_t keep = 0;
};

std::string name_of(const Summary& summary) {
  return std::filesystem::path(summary.path).filename().string();
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string layout_of(const Summary& summary) {
  return summary.layout ? layout_names[static_cast<std::size_t>(*summary.layout)] : "";
}

const char* condition_of(const Summary& summary) {
  return condition_names[static_cast<std::size_t>(summary.condition)];
}

nlohmann::ordered_json to_json(const Summary& summary) {
  nlohmann::ordered_json entry;
  entry["file"] = name_of(summary);
  entry["step"] = summary.step ? nlohmann::ordered_json(*summary.step) : nlohmann::ordered_json();
  entry["bytes"] = summary.bytes;
  entry["layout"] = layout_of(summary);
  entry["ranks"] =
      summary.ranks.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json::parse(summary.ranks);
  entry["strategy"] = summary.strategy;
  entry["state"] = condition_of(summary);
  entry["reason"] = summary.reason;
  return entry;
}

ExitCode list(const Arguments& arguments) {
  const std::vector<Summary> summaries = list_folder(arguments.path);
  if (arguments.json) {
    auto entries = nlohmann::ordered_json::array();
    for (const Summary& summary : summaries) entries.push_back(to_json(summary));
    fmt::print("{}\n", entries.dump(2));
    return ExitCode::success;
  }
  if (summaries.empty()) fmt::print("no checkpoints in {}\n", arguments.path);
  constexpr const char* row = "{:>10} {:>14} {:<13} {:>6} {:<8} {:<9} {}\n";
  if (!summaries.empty()) fmt::print(row, "step", "bytes", "layout", "ranks", "strategy", "state", "file");
  for (const Summary& summary : summaries)
    fmt::print(row, summary.step ? std::to_string(*summary.step) : "-", summary.bytes,
               or_dash(layout_of(summary)), or_dash(summary.ranks), or_dash(summary.strategy),
               condition_of(summary), name_of(summary));
  for (const Summary& summary : summaries)
    if (!summary.reason.empty()) fmt::print("{}\n", summary.reason);
  return ExitCode::success;
}

std::string shape_text(const std::vector<std::size_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

void print_values(const std::string& group, const std::map<std::string, Value>& values) {
  for (const auto& [key, value] : values) {
    const std::string name = group + "/" + key;
    if (const auto* text = std::get_if<std::string>(&value)) {
      const bool lines = text->find('\n') != std::string::npos;
      fmt::print("{:<40} {}{}\n", name, lines ? "\n" : "", *text);
    } else {
      std::visit([&](const auto& number) { fmt::print("{:<40} {}\n", name, number); }, value);
    }
  }
}

ExitCode show(const Arguments& arguments) {
  const Contents contents = describe_file(arguments.path);
  std::uint64_t elements = 0;
  fmt::print("{:<8} {:<16} {:<16} {}\n", "dtype", "shape", "fingerprint", "tensor");
  for (const Tensor& tensor : contents.tensors) {
    fmt::print("{:<8} {:<16} {:016x} /{}/{}\n", shardmark::name_of(tensor.dtype), shape_text(tensor.shape),
               tensor.fingerprint, tensor.group, tensor.name);
    elements += tensor.size();
  }
  fmt::print("{} tensors, {} elements\n", contents.tensors.size(), elements);
  print_values("/state", contents.state);
  print_values("/run", contents.run);
  return ExitCode::success;
}

/// Prints what is wrong with a checkpoint, or that nothing is.
bool is_whole(const std::string& path) {
  const std::vector<std::string> damage = find_damage(path);
  for (const std::string& sentence : damage) fmt::print("{}\n", sentence);
  if (damage.empty()) fmt::print("{}: complete, every fingerprint is right\n", path);
  return damage.empty();
}

/// In a folder, what is no checkpoint at all counts as damaged: its name says that it is one.
bool is_whole_in_folder(const std::string& path) {
  try {
    return is_whole(path);
  } catch (const Error& error) {
    fmt::print("{}\n", error.what());
    return false;
  }
}

ExitCode verify(const Arguments& arguments) {
  if (!std::filesystem::is_directory(arguments.path))
    return is_whole(arguments.path) ? ExitCode::success : ExitCode::invalid;
  const std::vector<Summary> summaries = list_folder(arguments.path);
  bool whole = true, any = false;
  for (const Summary& summary : summaries) {
    if (summary.condition == Condition::partial || summary.condition == Condition::abandoned) {
      fmt::print("{}\n", summary.reason);
      continue;
    }
    any = true;
    whole = is_whole_in_folder(summary.path) && whole;
  }
  if (!any) fmt::print("no checkpoints in {}\n", arguments.path);
  return !any ? ExitCode::environment : whole ? ExitCode::success : ExitCode::invalid;
}

ExitCode diff(const Arguments& arguments) {
  const auto differences = compare(arguments.path, arguments.other, arguments.tolerance);
  std::size_t different = 0;
  for (const Difference& difference : differences) {
    if (difference.count == 0) continue;
    ++different;
    if (difference.note.empty()) {
      fmt::print("{}: {} of {} elements differ, by {:.9g} at most\n", difference.dataset, difference.count,
                 difference.size, difference.largest);
    } else {
      fmt::print("{}: {}\n", difference.dataset, difference.note);
    }
  }
  double largest = 0;
  for (const Difference& difference : differences)
    if (!(difference.largest <= largest)) largest = difference.largest;
  fmt::print("{} of {} tensors differ by more than {:g}; the largest difference is {:.9g}\n", different,
             differences.size(), arguments.tolerance, largest);
  return different == 0 ? ExitCode::success : ExitCode::invalid;
}

ExitCode convert_file(const Arguments& arguments) {
  Options options;
  options.layout = arguments.layout == layout_names[0] ? Layout::shared_file : Layout::file_per_rank;
  fmt::print("wrote {}\n", convert(arguments.path, arguments.other, options, arguments.ranks));
  return ExitCode::success;
}

ExitCode prune(const Arguments& arguments) {
  const auto removed = prune_folder(arguments.path, arguments.keep);
  for (const std::string& path : removed) fmt::print("removed {}\n", path);
  fmt::print("removed {} checkpoints\n", removed.size());
  return ExitCode::success;
}

/// An action of one process; its errors end the program in order.
Command on_one_process(const std::function<ExitCode()>& action) {
  return [action] {
    const auto world = make_world_communicator("mpi");
    if (world->size() > 1) throw DeckError("shardmark ckpt works as one process: start it without mpirun");
    ExitCode code = ExitCode::success;
    world->agree([&] { code = action(); });
    return code;
  };
}

}  // namespace

Command add_ckpt(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  auto chosen = std::make_shared<std::function<ExitCode(const Arguments&)>>();
  const auto add = [&](const char* name, const char* help, ExitCode (*action)(const Arguments&)) {
    CLI::App* command = app.add_subcommand(name, help);
    command->callback([chosen, action] { *chosen = action; });
    return command;
  };
  app.require_subcommand(1);
  CLI::App* command = add("list", "The checkpoints of a folder, and what unfinished saves have left", list);
  command->add_option("folder", arguments->path, "a folder of checkpoints")->required();
  command->add_flag("--json", arguments->json, "print JSON");
  command = add("show", "Tensors, /state and /run of a checkpoint", show);
  command->add_option("file", arguments->path, "a checkpoint, step_00000100.h5")->required();
  command =
      add("verify",
          "Recompute every fingerprint; exit code 1 where one is wrong, 3 where nothing can be read", verify);
  command->add_option("path", arguments->path, "a checkpoint or a folder of them")->required();
  command = add("diff", "Compare the tensors of two checkpoints; exit code 1 where they differ", diff);
  command->add_option("a", arguments->path, "a checkpoint")->required();
  command->add_option("b", arguments->other, "another checkpoint")->required();
  command->add_option("--tolerance", arguments->tolerance, "absolute difference that is none (0)")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return std::strtod(text.c_str(), nullptr) >= 0 ? "" : std::string("it must be at least 0");
          },
          "NUMBER"));
  command = add("convert", "Write a checkpoint in another layout into another folder", convert_file);
  command->add_option("file", arguments->path, "a checkpoint")->required();
  command->add_option("folder", arguments->other, "where to write it, under the name of its step")
      ->required();
  command->add_option("--layout", arguments->layout, "shared_file or file_per_rank")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(layout_names.begin(), layout_names.end())));
  command
      ->add_option("--ranks", arguments->ranks,
                   "rank files of file_per_rank (as many as wrote the checkpoint)")
      ->check(CLI::Range(1, 99999));
  command = add("prune",
                "Remove all checkpoints, abandoned ones too, but the newest ones and the newest complete one",
                prune);
  command->add_option("folder", arguments->path, "a folder of checkpoints")->required();
  command->add_option("--keep", arguments->keep, "how many to keep")
      ->required()
      ->check(CLI::Range(1, 1000000));
  return on_one_process([arguments, chosen] { return (*chosen)(*arguments); });
}

}  // namespace shardmark
