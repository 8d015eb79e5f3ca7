// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/bench_comm.hpp"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "comm/communicator.hpp"
#include "comm/shared_window.hpp"
#include "train/ledger.hpp"
#include "train/metrics.hpp"
#include "train/preflight.hpp"

namespace shardmark {

namespace {

constexpr int root = 0;

/// What rank r brings at element i; sums of a few thousand of them are exact.
KOKKOS_INLINE_FUNCTION float brought(std::size_t rank, std::size_t i) {
  return static_cast<float>((i + 3 * rank) % 8);
}

void write_input(const Exec& exec, Collective kind, std::size_t rank, std::size_t ranks,
                 const Vector<float>& whole) {
  const std::size_t slice = whole.extent(0) / ranks;
  const bool all = kind != Collective::all_gather;
  Kokkos::parallel_for(
      "shardmark::bench_comm::write_input", Kokkos::RangePolicy<Exec>(exec, 0, whole.extent(0)),
      KOKKOS_LAMBDA(std::size_t i) { whole(i) = all || i / slice == rank ? brought(rank, i) : -1.0f; });
}

/// How many elements are not what they have to be.
std::size_t count_wrong(const Exec& exec, Collective kind, std::size_t rank, std::size_t ranks,
                        const Vector<float>& whole) {
  const std::size_t slice = whole.extent(0) / ranks;
  const bool scattered = kind == Collective::reduce_scatter;
  const std::size_t begin = scattered ? rank * slice : 0;
  const std::size_t end = scattered ? begin + slice : whole.extent(0);
  std::size_t wrong = 0;
  Kokkos::parallel_reduce(
      "shardmark::bench_comm::count_wrong", Kokkos::RangePolicy<Exec>(exec, begin, end),
      KOKKOS_LAMBDA(std::size_t i, std::size_t & sum) {
        float expected = 0;
        if (kind == Collective::all_gather) {
          expected = brought(i / slice, i);
        } else if (kind == Collective::broadcast) {
          expected = brought(root, i);
        } else {
          for (std::size_t r = 0; r < ranks; ++r) expected += brought(r, i);
        }
        sum += whole(i) != expected ? 1 : 0;
      },
      wrong);
  return wrong;
}

void run_collective(const Exec& exec, Collective kind, Communicator& comm, const Vector<float>& whole) {
  const std::size_t part = whole.extent(0) / comm.size();
  switch (kind) {
    case Collective::all_gather:
      return comm.start_all_gather(exec, whole).wait();
    case Collective::reduce_scatter:
      return comm
          .start_reduce_scatter(exec, whole, slice(whole, comm.rank() * part, (comm.rank() + 1) * part))
          .wait();
    case Collective::all_reduce:
      return comm.start_all_reduce(exec, whole).wait();
    case Collective::broadcast:
      return comm.start_broadcast(exec, whole, root).wait();
  }
}

double bus_factor(Collective kind, double ranks) {
  if (kind == Collective::broadcast) return 1;
  return (kind == Collective::all_reduce ? 2 : 1) * (ranks - 1) / ranks;
}

struct Backend {
  std::string name;
  std::unique_ptr<Communicator> comm;
  CommBuffer<float> buffer;
  std::vector<double> seconds;  ///< of the size at hand
};

/// Copies between the memory of two ranks.
class Copies {
 public:
  Copies(const Communicator& world, std::size_t largest)
      : window_(world.mpi_handle(), all_ranks(world), 2 * largest, "shardmark::bench_comm::copies"),
        next_((world.rank() + 1) % world.size()),
        to_(window_.own() + largest) {}
  /// As the input of a collective is written, source and target.
  void write(std::size_t bytes, int value) const {
    std::memset(window_.own(), value, bytes);
    std::memset(to_, value, bytes);
  }
  void copy(std::size_t bytes) const { std::memcpy(to_, window_.part(next_), bytes); }

 private:
  static std::vector<int> all_ranks(const Communicator& world) {
    std::vector<int> ranks(world.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  SharedWindow window_;
  int next_;
  char* to_;
};

struct Row {
  Collective kind;
  std::size_t bytes = 0;
  std::vector<double> seconds;  ///< medians, by back end
  double copy_seconds = 0;      ///< 0: not measured
  std::size_t repeats = 0, wrong = 0;
};

class CommBench {
 public:
  CommBench(const BenchCommOptions& options, const Communicator& world) : options_(options), world_(world) {
    for (const std::string& name : options.backends) {
      Backend backend{name, make_world_communicator(name), {}, {}};
      backend.buffer = backend.comm->allocate<float>(elements(options.max), "shardmark::bench_comm::buffer");
      backends_.push_back(std::move(backend));
    }
    if (exec_is_host && world.size() > 1 && world.host_max(world.size() - world.ranks_on_node()) == 0)
      copies_.emplace(world, elements(options.max) * sizeof(float));
  }

  Row measure(Collective kind, std::size_t bytes) {
    Row row{kind, elements(bytes) * sizeof(float), {}, 0, 0, 0};
    std::vector<double> copy_seconds;
    for (Backend& backend : backends_) backend.seconds.clear();
    const Stopwatch watch;
    bool enough = false;
    for (int turn = 0; !enough; ++turn) {  // the first one warms up
      for (Backend& backend : backends_) {
        const Vector<float> whole = slice(backend.buffer.view, 0, elements(bytes));
        write_input(exec_, kind, world_.rank(), world_.size(), whole);
        const double seconds = timed([&] { run_collective(exec_, kind, *backend.comm, whole); });
        if (turn > 0) backend.seconds.push_back(seconds);
        if (turn < 2) row.wrong += count_wrong(exec_, kind, world_.rank(), world_.size(), whole);
      }
      if (copies_) {
        const std::size_t moved = row.bytes / world_.size() * (world_.size() - 1);
        copies_->write(moved, turn);
        const double seconds = timed([&] { copies_->copy(moved); });
        if (turn > 0) copy_seconds.push_back(seconds);
      }
      enough = turn >= most_repeats ||
               (turn >= least_repeats && world_.host_max(watch.seconds()) > options_.seconds);
    }
    for (const Backend& backend : backends_) row.seconds.push_back(summarize(backend.seconds).median);
    if (copies_) row.copy_seconds = summarize(copy_seconds).median;
    row.repeats = backends_.front().seconds.size();
    row.wrong = world_.host_sum(row.wrong);
    return row;
  }

  const std::vector<Backend>& backends() const { return backends_; }

 private:
  static constexpr int least_repeats = 3, most_repeats = 200;

  /// A multiple of the ranks, at least one element each.
  std::size_t elements(std::size_t bytes) const {
    const std::size_t P = world_.size();
    return std::max<std::size_t>(1, bytes / sizeof(float) / P) * P;
  }

  template <class F>
  double timed(F f) const {
    fence(exec_, "shardmark::bench_comm::timed: what was launched before is not timed");
    world_.barrier();
    const Stopwatch watch;
    f();
    fence(exec_, "shardmark::bench_comm::timed: the clock stops");
    return world_.host_max(watch.seconds());
  }

  const BenchCommOptions& options_;
  const Communicator& world_;
  const Exec exec_{};
  std::vector<Backend> backends_;
  std::optional<Copies> copies_;
};

double copied(const Row& row, int ranks) {
  return static_cast<double>(row.bytes) / ranks * (ranks - 1);
}

std::string line_of(const Row& row, int ranks) {
  std::string text =
      fmt::format("{:<15}{:>11}", collective_names[static_cast<std::size_t>(row.kind)], row.bytes);
  for (const double seconds : row.seconds) {
    const double rate = static_cast<double>(row.bytes) / seconds / 1e9;
    text += fmt::format("{:>12.1f}{:>9.3f}{:>9.3f}", seconds * 1e6, rate, rate * bus_factor(row.kind, ranks));
  }
  if (row.copy_seconds > 0)
    text +=
        fmt::format("{:>12.1f}{:>9.3f}", row.copy_seconds * 1e6, copied(row, ranks) / row.copy_seconds / 1e9);
  return text + fmt::format("{:>6}{:>7}\n", row.repeats, row.wrong);
}

std::string head_of(const CommBench& bench, bool copies) {
  std::string above = fmt::format("{:<26}", ""), text = fmt::format("{:<15}{:>11}", "collective", "bytes");
  for (const Backend& backend : bench.backends()) {
    above += fmt::format("{:>30}", backend.comm->backend());
    text += fmt::format("{:>12}{:>9}{:>9}", "us", "alg GB/s", "bus GB/s");
  }
  if (copies) {
    above += fmt::format("{:>21}", "memcpy");
    text += fmt::format("{:>12}{:>9}", "us", "GB/s");
  }
  return above + "\n" + text + fmt::format("{:>6}{:>7}\n", "times", "wrong");
}

void write_json(const std::string& path, const std::vector<Row>& rows, const CommBench& bench, int ranks) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json one = {{"collective", collective_names[static_cast<std::size_t>(row.kind)]},
                                  {"ranks", ranks},
                                  {"bytes", row.bytes},
                                  {"repeats", row.repeats},
                                  {"wrong", row.wrong}};
    for (std::size_t i = 0; i < row.seconds.size(); ++i) {
      const double rate = static_cast<double>(row.bytes) / row.seconds[i];
      one[bench.backends()[i].name] = {{"runs_on", bench.backends()[i].comm->backend()},
                                       {"seconds", row.seconds[i]},
                                       {"algorithm_bytes_per_second", rate},
                                       {"bus_bytes_per_second", rate * bus_factor(row.kind, ranks)}};
    }
    if (row.copy_seconds > 0)
      one["memcpy"] = {{"seconds", row.copy_seconds},
                       {"bytes_per_second", copied(row, ranks) / row.copy_seconds}};
    all.push_back(one);
  }
  if (!(std::ofstream(path) << all.dump(2) << std::endl)) throw EnvironmentError(path + ": can't be written");
}

}  // namespace

ExitCode bench_comm(const BenchCommOptions& options) {
  const auto world = make_world_communicator("mpi");
  BenchCommOptions filled = options;
  if (filled.backends.empty()) {
    filled.backends = {"mpi"};
    if (make_world_communicator("auto")->backend() != "mpi") filled.backends.push_back("node");
  }
  constexpr std::size_t most = std::size_t{1} << 40;
  if (!(filled.seconds > 0)) throw DeckError("bench comm: --seconds must be above 0");
  if (filled.min > filled.max || filled.min == 0 || filled.max > most)
    throw DeckError("bench comm: --min must be above 0 and at most --max, --max at most 1TiB");
  MemoryBytes memory = {};  // a buffer a back end, one to compare with, one to copy to
  memory[static_cast<std::size_t>(MemoryClass::communication)] = (filled.backends.size() + 2) * filled.max;
  require_memory(*world, memory);
  CommBench bench(filled, *world);
  std::vector<Row> rows;
  std::size_t wrong = 0;
  for (std::size_t kind = 0; kind < collective_names.size(); ++kind) {
    for (std::size_t bytes = filled.min; bytes <= filled.max; bytes *= 4) {
      rows.push_back(bench.measure(static_cast<Collective>(kind), bytes));
      wrong += rows.back().wrong;
      if (world->rank() != 0) continue;
      if (rows.size() == 1)
        fmt::print("{} ranks, {}, fp32, in place, medians of the slowest rank's times\n{}", world->size(),
                   mpi_library_version(), head_of(bench, rows[0].copy_seconds > 0));
      fmt::print("{}", line_of(rows.back(), world->size()));
      std::fflush(stdout);
    }
  }
  world->agree([&] {
    if (world->rank() == 0 && !filled.json.empty()) write_json(filled.json, rows, bench, world->size());
  });
  return wrong == 0 ? ExitCode::success : ExitCode::invalid;
}

}  // namespace shardmark
