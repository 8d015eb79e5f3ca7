// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>

#include "checkpoint/format.hpp"
#include "core/runtime.hpp"
#include "layers/blas.hpp"

// Every test executable runs under MPI: rank 0 reports, other ranks report failures only, and a failure on
// any rank fails the job.
int main(int argc, char** argv) {
  shardmark::restart_with_fitting_blas_kernels(argv);
  shardmark::checkpoint::start_before_mpi();
  testing::InitGoogleTest(&argc, argv);
  shardmark::Runtime runtime(argc, argv);
  if (runtime.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    struct FailurePrinter : testing::EmptyTestEventListener {
      int rank;
      explicit FailurePrinter(int r) : rank(r) {}
      void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed())
          std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank, result.file_name(), result.line_number(),
                       result.summary());
      }
    };
    listeners.Append(new FailurePrinter(runtime.rank()));
  }
  return RUN_ALL_TESTS();
}
