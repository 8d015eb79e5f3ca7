// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>

#include "checkpoint_sample.hpp"

namespace shardmark::checkpoint {
namespace {

const Communicator& world() {
  static const Communicator* const communicator = make_world_communicator("mpi").release();  // outlives main
  return *communicator;
}

float value_of(std::size_t tensor, std::size_t i) {
  return static_cast<float>(static_cast<std::int32_t>(mix64((tensor << 40) ^ i)));
}

/// Two tensors of 2.3 GB each.
std::vector<Tensor> large_tensors() {
  const std::vector<std::size_t> shape = {(std::size_t{1} << 16) + 3, 8771};
  return {{"model", "a", shape, Dtype::fp32}, {"optimizer/exp_avg", "a", shape, Dtype::fp32}};
}

class LargeCheckpoint : public testing::TestWithParam<Layout> {};

// Datasets above 2 GiB and a file above 4 GiB: each rank writes one whole tensor, a piece of more than 2^31
// bytes, and reads one half of both.
TEST_P(LargeCheckpoint, IsWrittenAndReadBack) {
  if (std::getenv("SHARDMARK_LARGE") == nullptr)
    GTEST_SKIP() << "not asked for: SHARDMARK_LARGE=1 runs it, with 6 GB of memory and disk";
  ASSERT_EQ(world().size(), 2);
  const auto rank = static_cast<std::size_t>(world().rank());
  const TemporaryFolder folder(world());
  Contents contents;
  contents.tensors = large_tensors();
  const std::size_t n = contents.tensors[0].size();
  ASSERT_GT(n * sizeof(float), std::size_t{1} << 31);
  std::vector<float> memory(n + 1);
  contents.pieces = {{rank, 0, n, memory.data()}};
  std::vector<std::uint64_t> sums(2, 0);
  for (std::size_t i = 0; i < n; ++i) sums[rank] += fingerprint_term(i, memory[i] = value_of(rank, i));
  world().host_all_reduce(sums.data(), sums.size());
  for (std::size_t t = 0; t < 2; ++t) contents.tensors[t].fingerprint = sums[t];

  Options options;
  options.layout = GetParam();
  const Report written = save(world(), folder.path(), 1, contents, options, 0);
  EXPECT_EQ(written.bytes, 2 * n * sizeof(float));
  EXPECT_GT(written.file_bytes, std::uint64_t{1} << 32);

  std::fill(memory.begin(), memory.end(), 0.0f);
  const std::size_t begin = rank == 0 ? 0 : n / 2, end = rank == 0 ? n / 2 : n;
  contents.pieces = {{0, begin, end, memory.data()}, {1, begin, end, memory.data() + (end - begin)}};
  load(world(), folder / file_name(1), contents, options);
  for (const Piece& piece : contents.pieces) {
    const float* values = static_cast<const float*>(piece.data);
    std::size_t wrong = 0;
    for (std::size_t i = piece.begin; i < piece.end; ++i)
      wrong += values[i - piece.begin] != value_of(piece.tensor, i);
    EXPECT_EQ(wrong, 0u);
  }
  verify_fingerprints(world(), folder.path(), contents);
}

INSTANTIATE_TEST_SUITE_P(Layouts, LargeCheckpoint,
                         testing::Values(Layout::shared_file, Layout::file_per_rank));

}  // namespace
}  // namespace shardmark::checkpoint
