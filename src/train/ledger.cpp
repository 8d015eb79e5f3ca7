// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/ledger.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <fstream>
#include <utility>

namespace shardmark {

namespace {

namespace tools = Kokkos::Tools::Experimental;

// The callbacks are plain functions, so what they write to has to be reachable from everywhere.
struct Books {
  MemoryBytes current = {}, peak = {};
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
    {"::sharded_unit::gradients", MemoryClass::gradients},
    {"::optimizer::", MemoryClass::optimizer},
    {"::gpt::", MemoryClass::activations},
    {"::mlp::", MemoryClass::activations},
};

void on_allocate(Kokkos_Profiling_SpaceHandle space, const char* label, const void* pointer,
                 std::uint64_t bytes) {
  const auto i = static_cast<std::size_t>(MemoryLedger::class_of(label));
  books->current[i] += bytes;
  books->peak[i] = std::max(books->peak[i], books->current[i]);
  if (books->before.allocate_data != nullptr) books->before.allocate_data(space, label, pointer, bytes);
}

void on_deallocate(Kokkos_Profiling_SpaceHandle space, const char* label, const void* pointer,
                   std::uint64_t bytes) {
  const auto i = static_cast<std::size_t>(MemoryLedger::class_of(label));
  books->current[i] -=
      std::min(bytes, books->current[i]);  // memory from before the ledger may go while it watches
  if (books->before.deallocate_data != nullptr) books->before.deallocate_data(space, label, pointer, bytes);
}

}  // namespace

MemoryClass MemoryLedger::class_of(const std::string& label) {
  for (const auto& [part, memory_class] : label_classes)
    if (label.find(part) != std::string::npos) return memory_class;
  return MemoryClass::other;
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

MemoryBytes predict_model_state(std::size_t parameters, std::size_t bytes_per_element,
                                const Strategy& strategy, int shard_size, std::size_t optimizer_states) {
  const std::uint64_t whole = static_cast<std::uint64_t>(parameters) * bytes_per_element;
  const std::uint64_t sliced = whole / shard_size;
  MemoryBytes bytes = {};
  bytes[static_cast<int>(MemoryClass::parameters)] = strategy.parameters_whole ? whole : sliced;
  bytes[static_cast<int>(MemoryClass::gradients)] = strategy.gradients_whole ? whole : sliced;
  bytes[static_cast<int>(MemoryClass::optimizer)] = optimizer_states * sliced;
  return bytes;
}

template <class T>
std::array<Traffic, collective_names.size()> predict_traffic(const Trainer<T>& trainer, const Mesh& mesh) {
  std::array<Traffic, collective_names.size()> traffic = {};
  const auto add = [&](Collective kind, std::uint64_t calls, std::uint64_t bytes_each) {
    traffic[static_cast<std::size_t>(kind)].calls += calls;
    traffic[static_cast<std::size_t>(kind)].bytes += calls * bytes_each;
  };
  const std::uint64_t S = mesh.shard_size, R = mesh.replicas;
  for (std::size_t u = 0; u < trainer.units().size(); ++u) {
    const UnitLayout& layout = trainer.units()[u].layout();
    const std::uint64_t others = layout.slice * (S - 1) * sizeof(T);
    const auto& schedule = trainer.training_schedule();
    add(Collective::all_gather, count(schedule, Verb::unshard, u), others);
    add(Collective::reduce_scatter, count(schedule, Verb::reduce, u), others);
    add(Collective::all_reduce, count(schedule, Verb::all_reduce, u),
        2 * (layout.slice * sizeof(T) * (R - 1) / R));
  }
  return traffic;
}

std::array<Traffic, collective_names.size()> measured_traffic(const Mesh& mesh) {
  auto traffic = mesh.shard_group->traffic();
  for (std::size_t i = 0; i < traffic.size(); ++i) {
    traffic[i].calls += mesh.replica_group->traffic()[i].calls;
    traffic[i].bytes += mesh.replica_group->traffic()[i].bytes;
  }
  return traffic;
}

TimeByKind measured_times(const Mesh& mesh) {
  TimeByKind times = mesh.shard_group->times();
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

#define SHARDMARK_INSTANTIATE(T) \
  template std::array<Traffic, collective_names.size()> predict_traffic(const Trainer<T>&, const Mesh&);
SHARDMARK_INSTANTIATE(float)
SHARDMARK_INSTANTIATE(double)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
