// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "checkpoint_sample.hpp"

namespace shardmark::checkpoint {
namespace {

struct Outcome {
  int status;
  std::string text;
};

/// What a shell command prints, standard error included.
Outcome run(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  char part[4096];
  while (std::size_t n = std::fread(part, 1, sizeof part, pipe)) text.append(part, n);
  return {pclose(pipe), text};
}

/// A Python that has h5py: the first in the path, or the system's.
std::string python() {
  for (const std::string name : {"python3", "/usr/bin/python3"})
    if (run(name + " -c 'import h5py'").status == 0) return name;
  return "no-python3-with-h5py-found";
}

/// Files written in parallel, read with the tools that HDF5 and Python users have, in both layouts: virtual
/// datasets of ranges that begin and end inside of rows.
class CheckpointTools : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    for (const std::uint64_t step : {1, 2, 3}) {
      Sample sample = make_sample(*comm, sample_tensors(Dtype::fp32), Split::cyclic, true);
      sample.contents.state = {
          {"step", std::int64_t{42}}, {"deck", std::string("größer\n")}, {"loss_scale", 0.5}};
      sample.contents.run = {{"ranks", std::int64_t(step)}};
      for (const Piece& piece : sample.contents.pieces)
        if (step == 3 && piece.tensor == 2 && piece.begin <= 100 && 100 < piece.end)
          static_cast<float*>(piece.data)[100 - piece.begin] += 1e6f;
      checkpoint::save(*comm, folder.path(), step, sample.contents, {.layout = GetParam()}, 0);
    }
  }
  /// Runs on rank 0 and expects success and each of `parts` in the output.
  void expect(const std::string& command, const std::vector<std::string>& parts) {
    if (comm->rank() == 0) {
      const Outcome outcome = run(command);
      EXPECT_EQ(outcome.status, 0) << command << "\n" << outcome.text;
      for (const std::string& part : parts)
        EXPECT_NE(outcome.text.find(part), std::string::npos) << part << "\n"
                                                              << command << "\n"
                                                              << outcome.text;
    }
    comm->barrier();
  }
  std::string file(std::uint64_t step) const { return folder / file_name(step); }

  std::unique_ptr<Communicator> comm = make_world_communicator("mpi");
  TemporaryFolder folder{*comm};
};

TEST_P(CheckpointTools, H5lsShowsNamesAndShapes) {
  expect("h5ls -r " + file(1),
         {"/model/wte.weight        Dataset {37, 13}", "/optimizer/exp_avg/h.0.bias Dataset {2}",
          "/fingerprint/optimizer/exp_avg/h.0.bias Dataset {SCALAR}",
          "/state/format_version    Dataset {SCALAR}"});
}

TEST_P(CheckpointTools, H5dumpShowsTypesAndLayout) {
  const std::vector<std::string> shared = {"CONTIGUOUS", "H5D_FILL_TIME_NEVER", "H5D_ALLOC_TIME_EARLY"};
  const std::vector<std::string> rank_files = {"FILE \"step_00000001.shards/rank_00002.h5\"",
                                               "DATASET \"/model/wte.weight\"", "VALUE  nan"};
  expect("h5dump -H -p -d /model/wte.weight " + file(1), {"H5T_IEEE_F32LE"});
  expect("h5dump -H -p -d /model/wte.weight " + file(1),
         GetParam() == Layout::shared_file ? shared : rank_files);
  expect("h5dump -d /state/step " + file(1), {"H5T_STD_I64LE", "(0): 42"});
  expect("h5dump -d /fingerprint/model/scale " + file(1), {"H5T_STD_U64LE"});
  expect("h5dump -d /state/deck " + file(1), {"H5T_CSET_UTF8"});
}

TEST_P(CheckpointTools, H5diffComparesModelsAndStates) {
  expect("h5diff " + file(1) + " " + file(2) + " /model", {});
  expect("h5diff " + file(1) + " " + file(2) + " /state", {});
  expect("h5diff " + file(1) + " " + file(2) + " /run; test $? = 1", {"1 differences found"});
  expect("h5diff " + file(1) + " " + file(3) + " /model; test $? = 1", {"h.0.weight", "1 differences found"});
}

TEST_P(CheckpointTools, H5pyReadsValuesAndText) {
  char number[32];
  std::snprintf(number, sizeof number, "%.9g", static_cast<float>(sample_value(0, 36 * 13 + 12)));
  expect(python() + " -c '\nimport h5py\nf = h5py.File(\"" + file(1) +
             "\")\nw = f[\"model/wte.weight\"]\nprint(w.dtype, w.shape, \"%.9g\" % w[36, 12])\n"
             "print(f[\"state/deck\"][()].decode(), f[\"state/step\"][()], f[\"state/loss_scale\"][()])\n"
             "print(f[\"fingerprint/model/scale\"][()])'",
         {"float32 (37, 13) " + std::string(number), "größer\n 42 0.5",
          std::to_string(fingerprint_of<float>(3, 1)) + "\n"});
}

INSTANTIATE_TEST_SUITE_P(Layouts, CheckpointTools,
                         testing::Values(Layout::shared_file, Layout::file_per_rank),
                         [](const auto& info) { return layout_names[static_cast<int>(info.param)]; });

}  // namespace
}  // namespace shardmark::checkpoint
