// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/bench_io.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "train/metrics.hpp"
#include "train/preflight.hpp"
#include "train/synthetic_state.hpp"

namespace shardmark {

namespace {

namespace fs = std::filesystem;
using checkpoint::Contents;
using checkpoint::Layout;
using checkpoint::Options;
using checkpoint::Phase;
using checkpoint::Report;

/// A way to store, and what it was seen to take; each report's seconds are the slowest rank's.
struct Way {
  std::string name;
  std::function<Report(const std::string& folder, const Contents&)> write;
  std::function<Report(const std::string& folder, Contents&)> read;  ///< what the next rank wrote
  std::vector<Report> writes = {}, reads = {};
};

void require(bool ok, const std::string& path) {
  if (!ok) throw EnvironmentError(path + ": " + std::strerror(errno));
}

/// All pieces in one file, one behind the other, through pwrite or pread.
template <class Call>
void move_plain(int file, const std::string& path, const Contents& contents, Call call) {
  off_t place = 0;
  for (const auto& piece : contents.pieces) {
    char* data = static_cast<char*>(piece.data);
    std::size_t left = (piece.end - piece.begin) * size_of(contents.tensors[piece.tensor].dtype);
    while (left > 0) {
      const ssize_t moved = call(file, data, std::min(left, std::size_t{1} << 30), place);
      require(moved > 0, path);
      data += moved;
      place += moved;
      left -= static_cast<std::size_t>(moved);
    }
  }
}

std::string plain_path(const std::string& folder, int rank) {
  return fmt::format("{}/rank_{:05}", folder, rank);
}

/// Calls action, and books its time.
void in_phase(Report& report, Phase phase, const std::function<void()>& action) {
  const Stopwatch watch;
  action();
  report[phase] += watch.seconds();
  report.seconds += watch.seconds();
}

Report write_plain(const std::string& path, const Contents& contents, bool synchronise) {
  Report report;
  int file = -1;
  in_phase(report, Phase::open,
           [&] { file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644); });
  require(file >= 0, path);
  in_phase(report, Phase::data, [&] { move_plain(file, path, contents, pwrite); });
  in_phase(report, Phase::sync, [&] {
    require(!synchronise || fsync(file) == 0, path);
    require(close(file) == 0, path);
  });
  return report;
}

Report read_plain(const std::string& path, const Contents& contents) {
  Report report;
  int file = -1;
  in_phase(report, Phase::open, [&] { file = open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  require(file >= 0, path);
  in_phase(report, Phase::data, [&] { move_plain(file, path, contents, pread); });
  close(file);
  return report;
}

Way plain_files(const Communicator& world, const Options& options) {
  return {"plain files",
          [&](const std::string& folder, const Contents& contents) {
            Report report;
            const std::string path = plain_path(folder, world.rank());
            world.agree([&] { report = write_plain(path, contents, options.fsync); });
            return report;
          },
          [&](const std::string& folder, Contents& contents) {
            Report report;
            const std::string path = plain_path(folder, (world.rank() + 1) % world.size());
            world.agree([&] { report = read_plain(path, contents); });
            return report;
          }};
}

Way checkpoints(const Communicator& world, Options options, Layout layout, bool collective) {
  options.layout = layout;
  options.collective = collective;
  std::string name = checkpoint::layout_names[static_cast<std::size_t>(layout)];
  if (layout == Layout::shared_file) name += collective ? ", collective" : ", independent";
  return {name,
          [&world, options](const std::string& folder, const Contents& contents) {
            return checkpoint::save(world, folder, 0, contents, options, 0);
          },
          [&world, options](const std::string& folder, Contents& contents) {
            return checkpoint::load(world, folder + "/" + checkpoint::file_name(0), contents, options);
          }};
}

/// The slowest rank's figures.
Report slowest(const Communicator& world, Report report) {
  world.host_all_reduce(report.phase_seconds.data(), report.phase_seconds.size(), Reduction::max);
  report.seconds = world.host_max(report.seconds);
  return report;
}

/// Writes and removes a plain file of this rank's bytes, untimed: every way then finds a page cache with as
/// much free memory that was just in use. (The first touch of memory that a hypervisor has to give back may
/// take ten times as long as the write.)
void warm_page_cache(const Communicator& world, const std::string& folder, const Contents& contents) {
  const std::string path = plain_path(folder, world.rank());
  world.agree([&] {
    write_plain(path, contents, false);
    fs::remove(path);
  });
}

/// One write and one read, in a folder of its own that is empty before and gone afterwards.
void run_turn(const Communicator& world, const std::string& folder, SyntheticState& own, SyntheticState& next,
              Way& way) {
  const auto on_first = [&](const std::function<void()>& action) {
    world.agree([&] {
      if (world.rank() == 0) action();
    });
  };
  on_first([&] { fs::create_directory(folder); });
  warm_page_cache(world, folder, own.contents());
  way.writes.push_back(slowest(world, way.write(folder, own.contents())));
  next.clear();
  world.barrier();
  way.reads.push_back(slowest(world, way.read(folder, next.contents())));
  const std::size_t wrong = world.host_sum<std::uint64_t>(next.wrong_elements());
  on_first([&] { fs::remove_all(folder); });
  if (wrong > 0)
    throw Error(ExitCode::invalid, fmt::format("{}: {} elements were read back wrong", way.name, wrong),
                true);
}

double median(const std::vector<Report>& reports, const std::function<double(const Report&)>& of) {
  std::vector<double> values;
  for (const Report& report : reports) values.push_back(of(report));
  return summarize(values).median;
}
double seconds(const std::vector<Report>& reports) {
  return median(reports, [](const Report& report) { return report.seconds; });
}
double least_seconds(const std::vector<Report>& reports) {
  return std::min_element(reports.begin(), reports.end(),
                          [](const Report& a, const Report& b) { return a.seconds < b.seconds; })
      ->seconds;
}

/// In an order of chance, another one each turn and the same on all ranks: what one way leaves behind (warm
/// pages, a busy disk) must not always meet the same next one.
std::vector<std::size_t> order_of_turn(int turn, std::size_t ways) {
  std::vector<std::size_t> order(ways);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(turn)));
  return order;
}

std::string table(const std::vector<Way>& ways, double gigabytes) {
  std::string text = fmt::format("{:<26}", "write, seconds");
  const auto header = [&] {
    text +=
        fmt::format("{:>10}{:>10}{:>10}{:>10}{:>10}\n", "together", "GB/s", "of plain", "least", "of plain");
  };
  const auto figures = [&](const std::vector<Report>& reports, const std::vector<Report>& plain) {
    text += fmt::format("{:>10.4f}{:>10.3f}{:>10.2f}{:>10.4f}{:>10.2f}\n", seconds(reports),
                        gigabytes / seconds(reports), seconds(plain) / seconds(reports),
                        least_seconds(reports), least_seconds(plain) / least_seconds(reports));
  };
  for (std::size_t p = 1; p < checkpoint::phase_names.size(); ++p)
    text += fmt::format("{:>10}", checkpoint::phase_names[p]);
  header();
  for (const Way& way : ways) {
    text += fmt::format("{:<26}", way.name);
    for (std::size_t p = 1; p < checkpoint::phase_names.size(); ++p)
      text +=
          fmt::format("{:>10.4f}", median(way.writes, [&](const Report& r) { return r.phase_seconds[p]; }));
    figures(way.writes, ways.front().writes);
  }
  text += fmt::format("{:<26}", "read on the rank before");
  header();
  for (const Way& way : ways) {
    text += fmt::format("{:<26}", way.name);
    figures(way.reads, ways.front().reads);
  }
  return text;
}

void write_json(const std::string& path, const std::vector<Way>& ways, int ranks, std::uint64_t bytes) {
  using Json = nlohmann::ordered_json;
  const auto to_json = [](const std::vector<Report>& reports) {
    Json turns = Json::array();
    for (const Report& report : reports) {
      Json turn = {{"seconds", report.seconds}};
      for (std::size_t p = 1; p < report.phase_seconds.size(); ++p)
        turn[checkpoint::phase_names[p]] = report.phase_seconds[p];
      turns.push_back(turn);
    }
    return turns;
  };
  Json all = {{"ranks", ranks}, {"bytes", bytes}, {"ways", Json::array()}};
  for (const Way& way : ways)
    all["ways"].push_back({{"name", way.name},
                           {"write", to_json(way.writes)},
                           {"read", to_json(way.reads)},
                           {"write_ratio_to_plain", seconds(ways.front().writes) / seconds(way.writes)},
                           {"read_ratio_to_plain", seconds(ways.front().reads) / seconds(way.reads)}});
  if (!(std::ofstream(path) << all.dump(2) << std::endl)) throw EnvironmentError(path + ": can't be written");
}

}  // namespace

ExitCode bench_io(const BenchIoOptions& options) {
  const auto world = make_world_communicator("mpi");
  Deck deck = read_deck(*world, options.deck, options.overrides).with({});
  const RunConfig config = read_run_config(deck);
  const Plan plan = make_plan(config, world->size(),
                              make_mesh(*world, config.parallel.shard_size_for(world->size())).shard_size);
  MemoryBytes memory = {};
  memory[static_cast<std::size_t>(MemoryClass::checkpoint)] =
      2 * size_of(config.precision.master) * (1 + state_names(config.optimizer).size()) *
      plan.parameter_count() / static_cast<std::uint64_t>(world->size());
  require_memory(*world, memory);
  SyntheticState own(config, plan, world->rank()), next(config, plan, (world->rank() + 1) % world->size());
  own.fill(*world);

  const Options& how = config.checkpoint.options;
  std::vector<Way> ways = {plain_files(*world, how), checkpoints(*world, how, Layout::shared_file, false),
                           checkpoints(*world, how, Layout::shared_file, true),
                           checkpoints(*world, how, Layout::file_per_rank, false)};
  const std::string parent = options.folder.empty() ? config.output_dir : options.folder;
  const std::string folder = parent + "/bench_io";
  world->agree([&] {
    if (world->rank() != 0) return;
    fs::create_directories(parent);
    if (fs::exists(folder))
      throw EnvironmentError(folder + " is in the way: it is of another run, or was left by one");
  });
  try {
    for (int turn = 0; turn < options.repeats; ++turn)
      for (const std::size_t way : order_of_turn(turn, ways.size()))
        run_turn(*world, folder, own, next, ways[way]);
  } catch (...) {
    std::error_code ignored;
    if (world->rank() == 0) fs::remove_all(folder, ignored);
    throw;
  }

  const auto bytes = world->host_sum<std::uint64_t>(own.bytes());
  world->agree([&] {
    if (world->rank() != 0) return;
    fmt::print(
        "{:.1f} MB of {}, {} ranks, fsync {}, alignment {}: medians and least of {} turns in an order of "
        "chance, seconds of the slowest rank\n"
        "(what is read may come from the page cache where the ranks share a node)\n{}",
        bytes / 1e6, config.parallel.strategy.name, world->size(), how.fsync ? "on" : "off", how.alignment,
        options.repeats, table(ways, bytes / 1e9));
    if (!options.json.empty()) write_json(options.json, ways, world->size(), bytes);
  });
  return ExitCode::success;
}

}  // namespace shardmark
