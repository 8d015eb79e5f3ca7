// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <filesystem>
#include <regex>
#include <set>
#include <string>

namespace shardmark {

/// Labels read shardmark::<file>::<what>, where <file> is one of src/ without its ending; a fence may add
/// ": reason", a mirror "_mirror". Kokkos' and Kokkos Kernels' own pass, but not a label of ours in brackets
/// that is wrong.
inline bool is_right_label(const std::string& label) {
  static const std::set<std::string> files = [] {
    std::set<std::string> stems;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(SHARDMARK_SOURCE_FOLDER))
      if (entry.is_regular_file()) stems.insert(entry.path().stem());
    return stems;
  }();
  static const std::regex own(R"(shardmark::(\w+)::\w+(: .+)?)");
  static const std::regex foreign(R"((Kokkos|KokkosBlas|KokkosKernels)::[^\[]*(\[(.*)\])?.*)");
  std::smatch match;
  if (std::regex_match(label, match, own)) return files.count(match[1]) == 1;
  if (!std::regex_match(label, match, foreign)) return false;
  const std::string inner = match[3];
  return inner.rfind("shardmark", 0) != 0 || is_right_label(inner);
}

/// Watches the labels of all kernels, regions, allocations and deep copies of this process while it lives.
/// One at a time. Callbacks that a tool had set go on being called, and are put back.
class LabelChecker {
 public:
  LabelChecker() {
    namespace tools = Kokkos::Tools::Experimental;
    watched_ = {};
    before_ = tools::get_callbacks();
    tools::set_begin_parallel_for_callback(kernel<&tools::EventSet::begin_parallel_for>);
    tools::set_begin_parallel_reduce_callback(kernel<&tools::EventSet::begin_parallel_reduce>);
    tools::set_begin_parallel_scan_callback(kernel<&tools::EventSet::begin_parallel_scan>);
    tools::set_push_region_callback([](const char* name) {
      watch(name);
      if (before_.push_region != nullptr) before_.push_region(name);
    });
    tools::set_allocate_data_callback(
        [](Kokkos::Tools::SpaceHandle space, const char* name, const void* data, std::uint64_t bytes) {
          watch(name);
          if (before_.allocate_data != nullptr) before_.allocate_data(space, name, data, bytes);
        });
  }
  ~LabelChecker() { Kokkos::Tools::Experimental::set_callbacks(before_); }
  LabelChecker(const LabelChecker&) = delete;
  LabelChecker& operator=(const LabelChecker&) = delete;

  /// Labels seen so far.
  static const std::set<std::string>& seen() { return watched_.seen; }
  /// Those that break the rule.
  static const std::set<std::string>& wrong() { return watched_.wrong; }

 private:
  struct Watched {
    std::set<std::string> seen, wrong;
  };

  static void watch(const char* name) {
    watched_.seen.insert(name);
    if (!is_right_label(name)) watched_.wrong.insert(name);
  }
  template <auto member>
  static void kernel(const char* name, std::uint32_t device, std::uint64_t* id) {
    watch(name);
    if (before_.*member != nullptr) (before_.*member)(name, device, id);
  }

  inline static Watched watched_;
  inline static Kokkos::Tools::Experimental::EventSet before_;
};

}  // namespace shardmark
