// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "checkpoint/hdf5.hpp"
#include "checkpoint_sample.hpp"

namespace shardmark::checkpoint {
namespace {

class CheckpointOptions : public testing::TestWithParam<Layout> {
 protected:
  Report save(Options options, Dtype dtype = Dtype::fp32) {
    options.layout = GetParam();
    const Sample sample = make_sample(*comm, sample_tensors(dtype), Split::even, true);
    return checkpoint::save(*comm, folder.path(), 1, sample.contents, options, 0);
  }
  void expect_loadable() {
    Sample loaded = make_sample(*comm, sample_tensors(Dtype::fp32), Split::cyclic, false);
    load(*comm, folder / file_name(1), loaded.contents, {});
    EXPECT_EQ(wrong_elements(loaded.contents), 0u);
  }

  std::unique_ptr<Communicator> comm = make_world_communicator("mpi");
  TemporaryFolder folder{*comm};
};

TEST_P(CheckpointOptions, LargeTensorsStartAtMultiplesOfTheAlignment) {
  const std::size_t n = 1001 * static_cast<std::size_t>(comm->size());
  const std::vector<Tensor> tensors = {
      {"model", "a", {n}, Dtype::fp32}, {"model", "b", {n}, Dtype::fp32}, {"model", "c", {n}, Dtype::fp32}};
  for (const std::uint64_t alignment : {1024, 4096, 1 << 20}) {
    const Sample sample = make_sample(*comm, tensors, Split::even, true);
    const Options options{.layout = GetParam(), .alignment = alignment};
    checkpoint::save(*comm, folder.path(), 1, sample.contents, options, 0);
    Sample loaded = make_sample(*comm, tensors, Split::cyclic, false);
    load(*comm, folder / file_name(1), loaded.contents, {});
    EXPECT_EQ(wrong_elements(loaded.contents), 0u);
    if (comm->rank() == 0 && alignment < 4004) {  // 4004 bytes or more a dataset
      const bool shared = GetParam() == Layout::shared_file;
      const File file =
          open_alone(shared ? folder / file_name(1) : folder / shards_name(1) + "/rank_00000.h5");
      for (const std::string& name : dataset_names(file, "/model"))
        EXPECT_EQ(H5Dget_offset(open_dataset(file, "/model/" + name).get()) % alignment, 0u) << name;
    }
    comm->barrier();
  }
}

TEST_P(CheckpointOptions, HintsGoToMpi) {
  save({.mpi_info = {"cb_nodes=1", "striping_unit=1048576"}});
  expect_loadable();
  for (const std::string hint : {"cb_nodes", "=1", "cb_nodes=", ""}) {
    const Error error = error_of(*comm, [&] { save({.mpi_info = {hint}}); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_TRUE(contains(error, "checkpoint.mpi_info: \"" + hint + "\" is not of the form key=value"))
        << error.what();
  }
  expect_loadable();
}

TEST_P(CheckpointOptions, WithoutFsync) {
  save({.fsync = false});
  expect_loadable();
}

TEST_P(CheckpointOptions, PhasesAddUp) {
  const Report saved = save({});
  EXPECT_NEAR(std::accumulate(saved.phase_seconds.begin(), saved.phase_seconds.end(), 0.0), saved.seconds,
              1e-9);
  for (const Phase phase : {Phase::metadata, Phase::open, Phase::data, Phase::sync, Phase::rename})
    EXPECT_GT(saved[phase], 0) << phase_names[static_cast<std::size_t>(phase)];
  EXPECT_EQ(saved[Phase::snapshot], 0);
  Sample loaded = make_sample(*comm, sample_tensors(Dtype::fp32), Split::even, false);
  const Report report = load(*comm, folder / file_name(1), loaded.contents, {});
  EXPECT_EQ(report.file_bytes, saved.file_bytes);
  EXPECT_NEAR(report[Phase::metadata] + report[Phase::open] + report[Phase::data], report.seconds, 1e-9);
}

TEST_P(CheckpointOptions, CollectiveIsForSharedFiles) {
  if (GetParam() == Layout::shared_file) {
    save({.collective = true});
    return expect_loadable();
  }
  const Error error = error_of(*comm, [&] { save({.collective = true}); });
  EXPECT_EQ(error.code(), ExitCode::usage);
  EXPECT_TRUE(contains(error, "\"independent\" is valid")) << error.what();
}

INSTANTIATE_TEST_SUITE_P(Layouts, CheckpointOptions,
                         testing::Values(Layout::shared_file, Layout::file_per_rank),
                         [](const auto& info) { return layout_names[static_cast<int>(info.param)]; });

}  // namespace
}  // namespace shardmark::checkpoint
