// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <sys/mount.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>

#include "checkpoint/folder.hpp"
#include "checkpoint_sample.hpp"

namespace shardmark::checkpoint {
namespace {

/// 6 MB in an 8 MB file system fit once, and not twice.
std::vector<Tensor> large_tensors() {
  return {{"model", "a", {501, 1000}, Dtype::fp32},
          {"model", "b", {7}, Dtype::fp32},
          {"optimizer/exp_avg", "a", {999999}, Dtype::fp32}};
}

struct Mode {
  const char* name;
  Layout layout;
  bool collective;
};

class FullDisk : public testing::TestWithParam<Mode> {
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
    options.collective = GetParam().collective;
    options.layout = GetParam().layout;
    const Sample sample = make_sample(*comm, large_tensors(), Split::even, true);
    return checkpoint::save(*comm, folder.path(), step, sample.contents, options, keep);
  }
  void expect_loadable(std::uint64_t step) {
    Sample loaded = make_sample(*comm, large_tensors(), Split::every_rank, false);
    load(*comm, folder / file_name(step), loaded.contents, {});
    EXPECT_EQ(wrong_elements(loaded.contents), 0u);
  }
  bool rank_files() const { return GetParam().layout == Layout::file_per_rank; }
  /// What a failed save of the step leaves.
  std::string partial(std::uint64_t step) const {
    std::string name(".");
    name.append(rank_files() ? shards_name(step) : file_name(step)).append(".partial");
    return folder / name;
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
  EXPECT_FALSE(std::filesystem::exists(partial(2)));
}

TEST_P(FullDisk, AFailedWriteIsOneErrorAndLeavesEarlierOnes) {
  save(1, {});
  const Error error = error_of(*comm, [&] { save(2, {.check_free_space = false}); });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_TRUE(contains(error, partial(2))) << error.what();
  EXPECT_TRUE(contains(error, " bytes are free in " + folder.path())) << error.what();
  EXPECT_TRUE(std::filesystem::exists(partial(2)));
  EXPECT_EQ(scan(folder.path()).size(), 1u);
  expect_loadable(1);
}

TEST_P(FullDisk, LeftoversMakeRoomForTheNextSave) {
  fill(1 << 20);
  if (comm->rank() == 0) {
    if (rank_files()) std::filesystem::create_directory(partial(7));
    std::filesystem::rename(folder / "ballast", rank_files() ? partial(7) + "/rank_00000.h5" : partial(7));
  }
  save(8, {});
  expect_loadable(8);
}

TEST_P(FullDisk, NotEvenTheMetadataFit) {
  for (const std::uint64_t left : {0, 4096, 65536}) {
    fill(left);
    const Error error = error_of(*comm, [&] { save(1, {.check_free_space = false}); });
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_TRUE(contains(error, partial(1))) << error.what();
    EXPECT_TRUE(scan(folder.path()).empty());
    comm->barrier();
    if (comm->rank() == 0) std::filesystem::remove_all(partial(1));
    comm->barrier();
  }
}

/// The rank files fit, and the index after them does not.
TEST_P(FullDisk, NotEvenTheIndexFits) {
  if (!rank_files()) return;
  const std::uint64_t needed = save(1, {}).file_bytes;
  comm->barrier();
  if (comm->rank() == 0) remove_checkpoint(folder / file_name(1));
  comm->barrier();
  fill(needed);
  const Error error = error_of(*comm, [&] { save(1, {.check_free_space = false}); });
  EXPECT_TRUE(contains(error, "cannot write " + (folder / ".step_00000001.h5.partial"))) << error.what();
  EXPECT_TRUE(scan(folder.path()).empty());
  EXPECT_TRUE(std::filesystem::exists(partial(1)));
  if (comm->rank() == 0) std::filesystem::remove(folder / "ballast");
  comm->barrier();
  save(2, {});  // there is room for one
  expect_loadable(2);
  EXPECT_FALSE(std::filesystem::exists(partial(1)));
}

INSTANTIATE_TEST_SUITE_P(Modes, FullDisk,
                         testing::Values(Mode{"independent", Layout::shared_file, false},
                                         Mode{"collective", Layout::shared_file, true},
                                         Mode{"file_per_rank", Layout::file_per_rank, false}),
                         [](const auto& info) { return info.param.name; });

/// The size of files is limited on the last rank alone, so that its writes fail and those of others do not.
void expect_error_of_all(Layout layout) {
  const auto comm = make_world_communicator("mpi");
  const TemporaryFolder folder(*comm);
  const Sample sample = make_sample(*comm, large_tensors(), Split::even, true);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit low{1 << 20, before.rlim_max};
  if (comm->rank() == comm->size() - 1) setrlimit(RLIMIT_FSIZE, &low);
  const Error error = error_of(
      *comm, [&] { checkpoint::save(*comm, folder.path(), 1, sample.contents, {.layout = layout}, 0); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_TRUE(scan(folder.path()).empty());
  checkpoint::save(*comm, folder.path(), 1, sample.contents, {.layout = layout}, 0);
  EXPECT_EQ(scan(folder.path()).size(), 1u);
}

TEST(OneRankFails, IsTheErrorOfAll) {
  expect_error_of_all(Layout::shared_file);
}

TEST(OneRankFails, WithItsOwnFileToo) {
  expect_error_of_all(Layout::file_per_rank);
}

}  // namespace
}  // namespace shardmark::checkpoint
