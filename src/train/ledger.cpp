// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/ledger.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <utility>

namespace shardmark {

namespace {

namespace tools = Kokkos::Tools::Experimental;

// The callbacks are plain functions, so what they write to has to be reachable from everywhere.
struct Books {
  MemoryBytes current = {}, peak = {};
  PlaceBytes current_by_place = {}, peak_by_place = {};
  tools::EventSet before;  ///< callbacks of the user's tool
};
Books* books = nullptr;

struct LabelClass {
  const char* part;
  MemoryClass memory_class;
};
// Looked for in order, as part of a label.
constexpr LabelClass label_classes[] = {
    {"::unsharded_parameters", MemoryClass::unsharded_parameters},
    {"::unsharded_gradients", MemoryClass::unsharded_gradients},
    {"::sharded_unit::parameters", MemoryClass::parameters},
    {"::sharded_unit::masters", MemoryClass::masters},
    {"::offloaded_", MemoryClass::offloaded},
    {"::trainer::staging", MemoryClass::staging},
    {"::gpt::logits", MemoryClass::logits},
    {"::state::", MemoryClass::checkpoint},
    {"::sharded_unit::gradients", MemoryClass::gradients},
    {"::trainer::optimizer_", MemoryClass::optimizer},
    {"::gpt::", MemoryClass::activations},
    {"::mlp::", MemoryClass::activations},
    {"::node::", MemoryClass::communication},
    {"::staged::", MemoryClass::communication},
};

void on_allocate(Kokkos_Profiling_SpaceHandle space, const char* label, const void* pointer,
                 std::uint64_t bytes) {
  const auto i = static_cast<std::size_t>(MemoryLedger::class_of(label));
  books->current[i] += bytes;
  books->peak[i] = std::max(books->peak[i], books->current[i]);
  const auto place = static_cast<std::size_t>(MemoryLedger::place_of(space.name));
  books->current_by_place[place] += bytes;
  books->peak_by_place[place] = std::max(books->peak_by_place[place], books->current_by_place[place]);
  if (books->before.allocate_data != nullptr) books->before.allocate_data(space, label, pointer, bytes);
}

void on_deallocate(Kokkos_Profiling_SpaceHandle space, const char* label, const void* pointer,
                   std::uint64_t bytes) {
  const auto i = static_cast<std::size_t>(MemoryLedger::class_of(label));
  const auto place = static_cast<std::size_t>(MemoryLedger::place_of(space.name));
  // Memory from before the ledger may go while it watches.
  books->current[i] -= std::min(bytes, books->current[i]);
  books->current_by_place[place] -= std::min(bytes, books->current_by_place[place]);
  if (books->before.deallocate_data != nullptr) books->before.deallocate_data(space, label, pointer, bytes);
}

}  // namespace

MemoryClass MemoryLedger::class_of(const std::string& label) {
  for (const auto& [part, memory_class] : label_classes)
    if (label.find(part) != std::string::npos) return memory_class;
  return MemoryClass::other;
}

MemoryPlace MemoryLedger::place_of(const std::string& space) {
  if (space == "Host") return MemoryPlace::host;
  const bool pinned =
      space.find("HostPinned") != std::string::npos || space.find("HostUSM") != std::string::npos;
  return pinned ? MemoryPlace::pinned : MemoryPlace::device;
}

MemoryLedger::MemoryLedger() {
  if (books != nullptr) throw std::logic_error("memory ledger: there is one already");
  books = new Books;
  books->before = tools::get_callbacks();
  tools::set_allocate_data_callback(&on_allocate);
  tools::set_deallocate_data_callback(&on_deallocate);
}

MemoryLedger::~MemoryLedger() {
  tools::set_allocate_data_callback(books->before.allocate_data);
  tools::set_deallocate_data_callback(books->before.deallocate_data);
  delete std::exchange(books, nullptr);
}

MemoryBytes MemoryLedger::current() const {
  return books->current;
}
MemoryBytes MemoryLedger::peak() const {
  return books->peak;
}

PlaceBytes MemoryLedger::peak_by_place() const {
  return books->peak_by_place;
}

TrafficByKind measured_traffic(const Mesh& mesh) {
  auto traffic = mesh.shard_group->traffic();
  for (std::size_t i = 0; i < traffic.size(); ++i) {
    traffic[i].calls += mesh.replica_group->traffic()[i].calls;
    traffic[i].bytes += mesh.replica_group->traffic()[i].bytes;
  }
  return traffic;
}

TimeByKind measured_times(const Mesh& mesh) {
  auto times = mesh.shard_group->times();
  for (std::size_t i = 0; i < times.size(); ++i) times[i] += mesh.replica_group->times()[i];
  return times;
}

std::uint64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

namespace {

/// The number that a file holds, or nothing.
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

/// What the process's cgroup (version 2, or 1) has left below its limit.
std::optional<std::uint64_t> left_in_cgroup() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::string path = line.substr(line.rfind(':') + 1);
    const bool v2 = line.rfind("0::", 0) == 0;
    if (!v2 && line.find(":memory:") == std::string::npos) continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (const std::string& folder : {root + path, root}) {
      const auto limit = number_in(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
      const auto used = number_in(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
      if (limit && used) return *limit > *used ? *limit - *used : 0;
    }
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t available_memory() {
  std::uint64_t available = 0;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string word; meminfo >> word;) {
    if (word != "MemAvailable:") continue;
    meminfo >> available;
    available *= 1024;
  }
  const auto left = left_in_cgroup();
  return left && (available == 0 || *left < available) ? *left : available;
}

std::uint64_t available_device_memory() {
  std::size_t available = 0;
#ifdef KOKKOS_ENABLE_CUDA
  std::size_t all = 0;
  if (cudaMemGetInfo(&available, &all) != cudaSuccess) available = 0;
#endif
  return available;
}

}  // namespace shardmark
