// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/types.hpp"
#include "label_checker.hpp"

namespace shardmark {
namespace {

using Labels = std::set<std::string>;

TEST(LabelRule, Accepts) {
  for (const char* label :
       {"shardmark::types::values", "shardmark::shard_layout::x_mirror",
        "shardmark::types::sum: the host reads it", "Kokkos::View::initialization [shardmark::types::values]",
        "Kokkos::deep_copy: copy between resource spaces", "KokkosBlas::gemm[ETI]",
        "Kokkos::View::initialization [KokkosBlas::gemm::work]"})
    EXPECT_TRUE(is_right_label(label)) << label;
}

TEST(LabelRule, Refuses) {
  for (const char* label :
       {"", "values", "shardmark", "shardmark::types", "shardmark::types::", "Shardmark::types::x",
        "shardmark::no_such_file::x", "shardmark::types::sum over rows", "Kokkosx::y",
        "Kokkos::View::initialization [shardmark::types]", "N9shardmark1fEv"})
    EXPECT_FALSE(is_right_label(label)) << label;
}

void run_kernels(const Exec& exec, const std::string& label) {
  const OwnedVector<double> values = allocate<double>(label, 4);
  Kokkos::parallel_for(
      label, Kokkos::RangePolicy<Exec>(exec, 0, 4), KOKKOS_LAMBDA(int i) { values(i) = i; });
  double sum = 0;
  Kokkos::parallel_reduce(
      label + "_sum", Kokkos::RangePolicy<Exec>(exec, 0, 4),
      KOKKOS_LAMBDA(int i, double& part) { part += values(i); }, sum);
  EXPECT_EQ(sum, 6);
  Kokkos::parallel_scan(
      label + "_scan", Kokkos::RangePolicy<Exec>(exec, 0, 4), KOKKOS_LAMBDA(int i, double& part, bool last) {
        part += 1;
        if (last) values(i) = part;
      });
  Kokkos::Profiling::pushRegion(label + "_region");
  Kokkos::Profiling::popRegion();
}

// Kernels stand in functions: nvcc takes no lambda for the device in the body of a TEST.
void run_labelled() {
  Kokkos::parallel_for("shardmark::types::x", Kokkos::RangePolicy<Exec>(0, 1), KOKKOS_LAMBDA(int){});
}
void run_without_label() {
  Kokkos::parallel_for(Kokkos::RangePolicy<Exec>(0, 1), KOKKOS_LAMBDA(int){});
}

TEST(LabelChecker, SeesKernelsRegionsAndAllocations) {
  const LabelChecker checker;
  run_kernels(Exec(), "shardmark::types::x");
  for (const char* label : {"shardmark::types::x", "shardmark::types::x_sum", "shardmark::types::x_scan",
                            "shardmark::types::x_region"})
    EXPECT_EQ(checker.seen().count(label), 1u) << label;
  EXPECT_EQ(checker.wrong(), Labels());
}

TEST(LabelChecker, ReportsWrongOnes) {
  const LabelChecker checker;
  run_kernels(Exec(), "x");
  EXPECT_EQ(checker.wrong(), Labels({"x", "x_sum", "x_scan", "x_region"}));
}

TEST(LabelChecker, ReportsAKernelWithoutLabel) {
  const LabelChecker checker;
  run_without_label();
  EXPECT_EQ(checker.wrong().size(), 1u);
}

TEST(LabelChecker, ReportsAnAllocationWithoutLabel) {
  const LabelChecker checker;
  const OwnedVector<double> values("", 1);
  EXPECT_FALSE(checker.wrong().empty());
}

TEST(LabelChecker, CallsAndRestoresTheToolBefore) {
  namespace tools = Kokkos::Tools::Experimental;
  static int calls = 0;
  const tools::EventSet original = tools::get_callbacks();
  tools::set_begin_parallel_for_callback([](const char*, std::uint32_t, std::uint64_t*) { ++calls; });
  {
    const LabelChecker checker;
    run_labelled();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(checker.seen().size(), 1u);
  }
  run_labelled();
  EXPECT_EQ(calls, 2);
  tools::set_callbacks(original);
}

}  // namespace
}  // namespace shardmark
