// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/kernel_times.hpp"

#include <Kokkos_Core.hpp>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace shardmark {

namespace {

namespace tools = Kokkos::Tools::Experimental;
using Clock = std::chrono::steady_clock;

// The callbacks are plain functions, so what they write to has to be reachable from everywhere.
struct Books {
  WorkSeconds seconds = {};
  int depth = 0;  ///< of kernels and products inside each other: the outermost counts
  Work work = Work::copies;
  Clock::time_point start;
  tools::EventSet before;  ///< callbacks of the user's tool
};
Books* books = nullptr;

struct LabelWork {
  const char* part;
  Work work;
};
// Looked for in order, as part of a label; what is not found is a copy.
constexpr LabelWork label_work[] = {
    {"::gemm", Work::products},
    {"::attention", Work::attention},
    {"::layernorm::", Work::norms_and_activations},
    {"::gelu::", Work::norms_and_activations},
    {"::relu::", Work::norms_and_activations},
    {"::linear::", Work::norms_and_activations},
    {"::embedding::", Work::norms_and_activations},
    {"::cross_entropy::", Work::loss},
    {"::mean_squared_error::", Work::loss},
    {"::adamw::", Work::optimizer},
    {"::sgd::", Work::optimizer},
    {"::clip::", Work::optimizer},
};

void enter(const char* label) {
  if (books->depth++ > 0) return;
  books->work = KernelTimes::work_of(label);
  books->start = Clock::now();
}
void leave() {
  if (--books->depth > 0) return;
  books->seconds[static_cast<std::size_t>(books->work)] +=
      std::chrono::duration<double>(Clock::now() - books->start).count();
}

void on_begin_for(const char* label, std::uint32_t device, std::uint64_t* id) {
  if (books->before.begin_parallel_for != nullptr) books->before.begin_parallel_for(label, device, id);
  enter(label);
}
void on_end_for(std::uint64_t id) {
  leave();
  if (books->before.end_parallel_for != nullptr) books->before.end_parallel_for(id);
}
void on_begin_reduce(const char* label, std::uint32_t device, std::uint64_t* id) {
  if (books->before.begin_parallel_reduce != nullptr) books->before.begin_parallel_reduce(label, device, id);
  enter(label);
}
void on_end_reduce(std::uint64_t id) {
  leave();
  if (books->before.end_parallel_reduce != nullptr) books->before.end_parallel_reduce(id);
}
void on_push(const char* label) {
  if (books->before.push_region != nullptr) books->before.push_region(label);
  enter(label);
}
void on_pop() {
  leave();
  if (books->before.pop_region != nullptr) books->before.pop_region();
}

}  // namespace

Work KernelTimes::work_of(const std::string& label) {
  for (const auto& [part, work] : label_work)
    if (label.find(part) != std::string::npos) return work;
  return Work::copies;
}

KernelTimes::KernelTimes() {
  if (books != nullptr) throw std::logic_error("kernel times: they are taken already");
  books = new Books;
  books->before = tools::get_callbacks();
  tools::set_begin_parallel_for_callback(&on_begin_for);
  tools::set_end_parallel_for_callback(&on_end_for);
  tools::set_begin_parallel_reduce_callback(&on_begin_reduce);
  tools::set_end_parallel_reduce_callback(&on_end_reduce);
  tools::set_push_region_callback(&on_push);
  tools::set_pop_region_callback(&on_pop);
}

KernelTimes::~KernelTimes() {
  const tools::EventSet& before = books->before;
  tools::set_begin_parallel_for_callback(before.begin_parallel_for);
  tools::set_end_parallel_for_callback(before.end_parallel_for);
  tools::set_begin_parallel_reduce_callback(before.begin_parallel_reduce);
  tools::set_end_parallel_reduce_callback(before.end_parallel_reduce);
  tools::set_push_region_callback(before.push_region);
  tools::set_pop_region_callback(before.pop_region);
  delete std::exchange(books, nullptr);
}

WorkSeconds KernelTimes::seconds() const {
  return books->seconds;
}

}  // namespace shardmark
