// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <sys/mount.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>

#include "checkpoint_sample.hpp"

namespace shardmark::checkpoint {
namespace {

/// 6 MB in an 8 MB file system fit once, and not twice.
std::vector<Tensor> large_tensors() {
  return {{"model", "a", {501, 1000}, Dtype::fp32},
          {"model", "b", {7}, Dtype::fp32},
          {"optimizer/exp_avg", "a", {999999}, Dtype::fp32}};
}

class FullDisk : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    int status = 0;
    if (comm->rank() == 0 && mount("none", folder.path().c_str(), "tmpfs", 0, "size=8m") != 0) status = errno;
    status = comm->host_max(status);
    if (status != 0) GTEST_SKIP() << "cannot mount a tmpfs here: " << std::strerror(status);
    mounted = true;
  }
  void TearDown() override {
    comm->barrier();
    if (mounted && comm->rank() == 0) {
      EXPECT_EQ(umount2(folder.path().c_str(), MNT_DETACH), 0)  // files of failed saves are still open
          << std::strerror(errno);
    }
  }
  Report save(std::uint64_t step, Options options, std::size_t keep = 0) {
    options.collective = GetParam();
    const Sample sample = make_sample(*comm, large_tensors(), Split::even, true);
    return checkpoint::save(*comm, folder.path(), step, sample.contents, options, keep);
  }
  void expect_loadable(std::uint64_t step) {
    Sample loaded = make_sample(*comm, large_tensors(), Split::every_rank, false);
    load(*comm, folder / file_name(step), loaded.contents, {});
    EXPECT_EQ(wrong_elements(loaded.contents), 0u);
  }
  /// Fills the file system but for `left` bytes.
  void fill(std::uint64_t left) {
    if (comm->rank() == 0) {
      std::filesystem::remove(folder / "ballast");
      const std::uint64_t size = std::filesystem::space(folder.path()).available - left;
      FILE* file = std::fopen((folder / "ballast").c_str(), "w");
      for (std::uint64_t i = 0; i < size; ++i) std::fputc('x', file);
      std::fclose(file);
    }
    comm->barrier();
  }

  std::unique_ptr<Communicator> comm = make_world_communicator("mpi");
  TemporaryFolder folder{*comm};
  bool mounted = false;
};

TEST_P(FullDisk, TooLittleSpaceIsRefusedBeforeWriting) {
  save(1, {});
  const Error error = error_of(*comm, [&] { save(2, {}); });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_TRUE(contains(error, "bytes free")) << error.what();
  EXPECT_FALSE(std::filesystem::exists(folder / ".step_00000002.h5.partial"));
}

TEST_P(FullDisk, AFailedWriteIsOneErrorAndLeavesEarlierOnes) {
  save(1, {});
  const Error error = error_of(*comm, [&] { save(2, {.check_free_space = false}); });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_TRUE(contains(error, folder / ".step_00000002.h5.partial")) << error.what();
  EXPECT_TRUE(contains(error, " bytes are free in " + folder.path())) << error.what();
  EXPECT_TRUE(std::filesystem::exists(folder / ".step_00000002.h5.partial"));
  EXPECT_EQ(scan(folder.path()).size(), 1u);
  expect_loadable(1);
}

TEST_P(FullDisk, LeftoversMakeRoomForTheNextSave) {
  fill(1 << 20);
  if (comm->rank() == 0) std::filesystem::rename(folder / "ballast", folder / ".step_00000007.h5.partial");
  save(8, {});
  expect_loadable(8);
}

TEST_P(FullDisk, NotEvenTheMetadataFit) {
  for (const std::uint64_t left : {0, 4096, 65536}) {
    fill(left);
    const Error error = error_of(*comm, [&] { save(1, {.check_free_space = false}); });
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_TRUE(contains(error, folder / ".step_00000001.h5.partial")) << error.what();
    EXPECT_TRUE(scan(folder.path()).empty());
    comm->barrier();
    if (comm->rank() == 0) std::filesystem::remove(folder / ".step_00000001.h5.partial");
    comm->barrier();
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, FullDisk, testing::Bool(),
                         [](const auto& info) { return info.param ? "collective" : "independent"; });

/// The size of files is limited on the last rank alone, so that its writes fail and those of others do not.
TEST(OneRankFails, IsTheErrorOfAll) {
  const auto comm = make_world_communicator("mpi");
  const TemporaryFolder folder(*comm);
  const Sample sample = make_sample(*comm, large_tensors(), Split::even, true);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit low{1 << 20, before.rlim_max};
  if (comm->rank() == comm->size() - 1) setrlimit(RLIMIT_FSIZE, &low);
  const Error error =
      error_of(*comm, [&] { checkpoint::save(*comm, folder.path(), 1, sample.contents, {}, 0); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_TRUE(scan(folder.path()).empty());
  checkpoint::save(*comm, folder.path(), 1, sample.contents, {}, 0);
  EXPECT_EQ(scan(folder.path()).size(), 1u);
}

}  // namespace
}  // namespace shardmark::checkpoint
