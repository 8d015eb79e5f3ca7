// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/write_behind.hpp"
#include "checkpoint_sample.hpp"

namespace {

/// What the program asked the system to write.
struct Request {
  std::string file;
  off64_t offset, bytes;
  unsigned flags;
};
std::vector<Request>& requests() {
  static std::vector<Request> all;
  return all;
}

}  // namespace

/// In place of the C library's.
extern "C" int sync_file_range(int file, off64_t offset, off64_t bytes, unsigned flags) {
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file));
  requests().push_back({path.filename(), offset, bytes, flags});
  return 0;
}

namespace shardmark::checkpoint {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

class WriteBehindTest : public testing::Test {
 protected:
  WriteBehindTest() {
    requests().clear();
    std::ofstream(path) << "some bytes";
  }
  const std::unique_ptr<Communicator> comm = make_world_communicator("mpi");
  TemporaryFolder folder{*comm};
  const std::string path = folder / "file.h5";
};

TEST_F(WriteBehindTest, StartsOnceForEvery32MiB) {
  WriteBehind behind(path, true);
  behind.wrote(31 * mebibyte);
  behind.wrote(mebibyte - 1);
  EXPECT_EQ(requests().size(), 0u);
  behind.wrote(1);
  ASSERT_EQ(requests().size(), 1u);
  EXPECT_EQ(requests()[0].file, "file.h5");
  // All dirty pages of the file, without waiting for them.
  EXPECT_EQ(requests()[0].offset, 0);
  EXPECT_EQ(requests()[0].bytes, 0);
  EXPECT_EQ(requests()[0].flags, static_cast<unsigned>(SYNC_FILE_RANGE_WRITE));
  behind.wrote(31 * mebibyte);
  EXPECT_EQ(requests().size(), 1u);
  behind.wrote(100 * mebibyte);
  EXPECT_EQ(requests().size(), 2u);
}

TEST_F(WriteBehindTest, DoesNothingWhereItIsNotActiveOrHasNoFile) {
  WriteBehind idle(path, false);
  idle.wrote(64 * mebibyte);
  WriteBehind lost(folder / "none", true);
  lost.wrote(64 * mebibyte);
  EXPECT_EQ(requests().size(), 0u);
}

// A save with fsync starts the writing of its own file; one without leaves it to the system.
TEST_F(WriteBehindTest, IsPartOfSavesThatSync) {
  std::vector<Tensor> tensors{{"model", "a", {40, mebibyte / 4}, Dtype::fp32}};
  Sample sample = make_sample(*comm, tensors, Split::even, true);
  for (const bool fsync : {false, true}) {
    requests().clear();
    Options options;
    options.fsync = fsync;
    checkpoint::save(*comm, folder.path(), fsync ? 2 : 1, sample.contents, options, 0);
    EXPECT_EQ(requests().size(), fsync ? 1u : 0u);
  }
}

}  // namespace
}  // namespace shardmark::checkpoint
