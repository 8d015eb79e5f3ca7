// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <limits>
#include <set>

#include "checkpoint/hdf5.hpp"
#include "checkpoint_sample.hpp"

namespace shardmark::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Each test with both layouts.
class Checkpoint : public testing::TestWithParam<Layout> {
 protected:
  /// Saves the sample with one range a rank.
  std::string save(std::uint64_t step, std::size_t keep = 0) {
    Sample sample = make_sample(*comm, sample_tensors(Dtype::fp32), Split::even, true);
    sample.contents.state = state;
    checkpoint::save(*comm, folder.path(), step, sample.contents, {.layout = GetParam()}, keep);
    return folder / file_name(step);
  }
  /// The transfers that the layout has.
  std::vector<bool> collective_or_not() const {
    return GetParam() == Layout::shared_file ? std::vector{false, true} : std::vector{false};
  }
  Error load_error(const std::string& path, const std::vector<Tensor>& tensors) {
    Sample sample = make_sample(*comm, tensors, Split::even, false);
    return error_of(*comm, [&] { load(*comm, path, sample.contents, {}); });
  }
  template <class Action>
  void on_rank_0(Action action) {
    if (comm->rank() == 0) action();
    comm->barrier();
  }

  std::unique_ptr<Communicator> comm = make_world_communicator("mpi");
  TemporaryFolder folder{*comm};
  std::map<std::string, Value> state = {{"step", std::int64_t{-7}},
                                        {"seed", std::numeric_limits<std::uint64_t>::max()},
                                        {"loss_scale", 0.1},
                                        {"deck", std::string("[model]\nname = \"größer\"\n")},
                                        {"data/cursor", std::int64_t{1} << 40},
                                        {"empty", std::string()}};
};

class SharedFile : public Checkpoint {};

TEST(CheckpointBoxes, CoverARangeInOrderWithAtMostThreeOfAMatrix) {
  const std::size_t rows = 5, columns = 4;
  for (std::size_t begin = 0; begin <= rows * columns; ++begin)
    for (std::size_t end = begin; end <= rows * columns; ++end) {
      std::vector<std::size_t> elements;
      const auto boxes = make_boxes({rows, columns}, begin, end);
      EXPECT_LE(boxes.size(), 3u);
      for (const Box& box : boxes) {
        EXPECT_EQ(box.begin, begin + elements.size());
        for (hsize_t i = 0; i < box.count[0]; ++i)
          for (hsize_t j = 0; j < box.count[1]; ++j)
            elements.push_back((box.start[0] + i) * columns + box.start[1] + j);
      }
      ASSERT_EQ(elements.size(), end - begin);
      for (std::size_t i = 0; i < elements.size(); ++i) EXPECT_EQ(elements[i], begin + i);
    }
}

TEST(CheckpointBoxes, ThreeDimensions) {
  const auto boxes = make_boxes({3, 2, 4}, 3, 22);  // ends of a row, a slab, whole slabs, a row, a part
  ASSERT_EQ(boxes.size(), 5u);
  EXPECT_EQ(boxes[2].start, (std::vector<hsize_t>{1, 0, 0}));
  EXPECT_EQ(boxes[2].count, (std::vector<hsize_t>{1, 2, 4}));
  EXPECT_EQ(boxes[4].start, (std::vector<hsize_t>{2, 1, 0}));
  EXPECT_EQ(boxes[4].count, (std::vector<hsize_t>{1, 1, 2}));
}

TEST_P(Checkpoint, RoundTripToOtherRanges) {
  std::uint64_t step = 0;
  for (const Dtype dtype : {Dtype::fp32, Dtype::fp64})
    for (const bool collective : collective_or_not())
      for (const std::size_t largest_call : {std::size_t{1000}, std::size_t{1} << 30})
        for (const Split split : {Split::even, Split::cyclic, Split::last_rank}) {
          const Options options{.collective = collective, .largest_call = largest_call, .layout = GetParam()};
          Sample saved = make_sample(*comm, sample_tensors(dtype), split, true);
          saved.contents.state = state;
          saved.contents.run = {{"ranks", std::int64_t{comm->size()}}};
          const Report report = checkpoint::save(*comm, folder.path(), ++step, saved.contents, options, 1);
          EXPECT_EQ(report.bytes, (2 * (37 * 13 + 2) + 101 + 1) * size_of(dtype));
          for (const Split other : {Split::cyclic, Split::every_rank}) {
            Sample loaded = make_sample(*comm, sample_tensors(dtype), other, false);
            load(*comm, folder / file_name(step), loaded.contents, options);
            EXPECT_EQ(wrong_elements(loaded.contents), 0u);
            if (other != Split::every_rank) verify_fingerprints(*comm, "file", loaded.contents);
            EXPECT_EQ(loaded.contents.run, saved.contents.run);
            auto expected = state;
            expected["format_version"] = format_version;
            EXPECT_EQ(loaded.contents.state, expected);
          }
        }
}

TEST_P(Checkpoint, StateAlone) {
  const std::string path = save(3);
  const auto found = read_state(*comm, path);
  EXPECT_EQ(std::get<std::int64_t>(found.at("format_version")), 1);
  EXPECT_EQ(std::get<std::string>(found.at("deck")), std::get<std::string>(state.at("deck")));
  EXPECT_EQ(found.size(), state.size() + 1);
}

TEST_P(Checkpoint, ManyTensorsAndMetadataInTheirEstimate) {
  constexpr std::size_t n = 60;
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < n; ++i) {
    const std::string name = "transformer.h." + std::to_string(i) + ".attn.c_attn.weight";
    tensors.push_back({"model", name, {3, i + 1}, Dtype::fp32});
  }
  Sample saved = make_sample(*comm, tensors, Split::even, true);
  const Report report = checkpoint::save(*comm, folder.path(), 1, saved.contents, {.layout = GetParam()}, 0);
  const std::size_t files =
      GetParam() == Layout::shared_file ? 1 : 1 + static_cast<std::size_t>(comm->size());
  EXPECT_EQ(report.bytes, 12 * n * (n + 1) / 2);
  EXPECT_LT(report.file_bytes, report.bytes + files * 65536 + 3 * n * 2048);
  EXPECT_GE(report.file_bytes, report.bytes + fs::file_size(folder / file_name(1)) * (files > 1));
  Sample loaded = make_sample(*comm, tensors, Split::cyclic, false);
  load(*comm, folder / file_name(1), loaded.contents, {.collective = true});
  EXPECT_EQ(wrong_elements(loaded.contents), 0u);
}

TEST_P(Checkpoint, MissingExtraAndDifferentDatasetsAreErrorsByName) {
  const std::string path = save(1);
  auto tensors = sample_tensors(Dtype::fp32);
  tensors.push_back({"optimizer/exp_avg_sq", "scale", {1}, Dtype::fp32});
  Error error = load_error(path, tensors);
  EXPECT_EQ(error.code(), ExitCode::usage);
  EXPECT_TRUE(contains(error, "missing: /optimizer/exp_avg_sq/scale")) << error.what();
  EXPECT_TRUE(contains(error, path));
  EXPECT_FALSE(contains(error, "extra"));

  tensors = sample_tensors(Dtype::fp32);
  tensors.erase(tensors.begin() + 3);
  error = load_error(path, tensors);
  EXPECT_TRUE(contains(error, "extra: /model/scale")) << error.what();

  tensors = sample_tensors(Dtype::fp32);
  tensors[0].shape = {13, 37};
  tensors[1].dtype = Dtype::fp64;
  error = load_error(path, tensors);
  EXPECT_TRUE(contains(error, "/model/wte.weight is float32 (37, 13) and not float32 (13, 37)"))
      << error.what();
  EXPECT_TRUE(contains(error, "/model/h.0.bias is float32 (2) and not float64 (2)")) << error.what();
}

TEST_P(Checkpoint, FilesThatAreNoCheckpoints) {
  const auto tensors = sample_tensors(Dtype::fp32);
  const auto expect = [&](const std::string& path, const std::string& text) {
    const Error error = load_error(path, tensors);
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_TRUE(contains(error, path)) << error.what();
    EXPECT_TRUE(contains(error, text)) << error.what();
    const Error looked = error_of(*comm, [&] { read_state(*comm, path); });
    EXPECT_STREQ(looked.what(), error.what());
  };
  expect(folder / "none.h5", "No such file");
  on_rank_0([&] { std::ofstream(folder / "text.h5") << "not HDF5 at all"; });
  expect(folder / "text.h5", "is not an HDF5 file");
  on_rank_0([&] { std::ofstream(folder / "empty.h5"); });
  expect(folder / "empty.h5", "is not an HDF5 file");
  expect(folder.path(), "is not an HDF5 file");
  on_rank_0([&] { create_alone(folder / "foreign.h5").close(); });
  expect(folder / "foreign.h5", "is not a Shardmark checkpoint: it has no /state/format_version");
  state["format_version"] = std::int64_t{2};
  expect(save(1), "has format version 2; this program reads version 1");
  state.erase("format_version");
  for (const int part : {1, 4, 9}) {
    const std::string path = save(2);
    on_rank_0([&] { fs::resize_file(path, fs::file_size(path) * part / 10); });
    expect(path, "is truncated");
  }
}

TEST_P(SharedFile, AFlippedBitNamesItsTensor) {
  const std::string path = save(1);
  on_rank_0([&] {
    haddr_t offset = 0;
    {
      const File file = open_alone(path);
      offset = H5Dget_offset(open_dataset(file, "/optimizer/exp_avg/wte.weight").get());
    }
    std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(static_cast<std::streamoff>(offset + 77));
    const int byte = bytes.get();
    bytes.seekp(static_cast<std::streamoff>(offset + 77));
    bytes.put(static_cast<char>(byte ^ 4));
  });
  Sample loaded = make_sample(*comm, sample_tensors(Dtype::fp32), Split::cyclic, false);
  load(*comm, path, loaded.contents, {});
  const Error error = error_of(*comm, [&] { verify_fingerprints(*comm, path, loaded.contents); });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_EQ(std::string(error.what()),
            path + " is damaged: wrong fingerprint of /optimizer/exp_avg/wte.weight");
}

TEST_P(SharedFile, CollectiveModeReadsBackBeforeTheName) {
  Sample sample = make_sample(*comm, sample_tensors(Dtype::fp32), Split::even, true);
  sample.contents.tensors[2].fingerprint += 1;  // as if other data had reached the file
  const Error error = error_of(
      *comm, [&] { checkpoint::save(*comm, folder.path(), 1, sample.contents, {.collective = true}, 0); });
  EXPECT_TRUE(contains(error, "wrong fingerprint of /model/h.0.weight")) << error.what();
  EXPECT_TRUE(scan(folder.path()).empty());
}

TEST_P(Checkpoint, KeepsTheNewestAndTheOneJustSaved) {
  const auto steps = [&] {
    std::vector<std::uint64_t> found;
    for (const Found& file : scan(folder.path())) found.push_back(file.step);
    comm->barrier();
    return found;
  };
  EXPECT_TRUE(scan(folder / "nowhere").empty());
  for (const std::uint64_t step : {100, 20, 300000000}) save(step);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{20, 100, 300000000}));
  on_rank_0([&] {
    for (const char* name :
         {".step_00000400.h5.partial", "step_00000500.h5.bak", "step_5.h5", "step_0000050x.h5", "notes.h5"})
      std::ofstream(folder / name) << "x";
  });
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{20, 100, 300000000}));
  save(200, 2);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{200, 300000000}));
  EXPECT_FALSE(fs::exists(folder / ".step_00000400.h5.partial"));
  EXPECT_TRUE(fs::exists(folder / "step_00000500.h5.bak"));
  comm->barrier();
  save(50, 1);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{50}));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) names.insert(entry.path().filename());
  std::set<std::string> expected = {"step_00000050.h5", "step_00000500.h5.bak", "step_5.h5",
                                    "step_0000050x.h5", "notes.h5"};
  if (GetParam() == Layout::file_per_rank) expected.insert("step_00000050.shards");
  EXPECT_EQ(names, expected);
}

TEST_P(Checkpoint, AFailedSaveLeavesEarlierOnesAndOneErrorOnAllRanks) {
  const std::string first = save(1, 1);
  for (const bool collective : collective_or_not()) {
    Sample bad = make_sample(*comm, sample_tensors(Dtype::fp32), Split::even, true);
    if (comm->rank() == comm->size() - 1) bad.contents.pieces.push_back({1, 0, 3, nullptr});
    const Error error = error_of(*comm, [&] {
      checkpoint::save(*comm, folder.path(), 2, bad.contents,
                       {.collective = collective, .layout = GetParam()}, 1);
    });
    EXPECT_TRUE(contains(error, "[0, 3) is outside of /model/h.0.bias")) << error.what();
    // Rank files are planned, and so checked, before any is written.
    EXPECT_EQ(fs::exists(folder / ".step_00000002.h5.partial"), GetParam() == Layout::shared_file);
    EXPECT_FALSE(fs::exists(folder / ".step_00000002.shards.partial"));
    ASSERT_EQ(scan(folder.path()).size(), 1u);
    Sample loaded = make_sample(*comm, sample_tensors(Dtype::fp32), Split::cyclic, false);
    load(*comm, first, loaded.contents, {});
    EXPECT_EQ(wrong_elements(loaded.contents), 0u);
    comm->barrier();
  }
  save(2, 1);
  EXPECT_FALSE(fs::exists(folder / ".step_00000002.h5.partial"));
  EXPECT_EQ(scan(folder.path()).front().path, folder / "step_00000002.h5");
}

TEST_P(Checkpoint, AFolderThatCannotBeMadeIsAnErrorOfAllRanks) {
  on_rank_0([&] { std::ofstream(folder / "file") << "x"; });
  Sample sample = make_sample(*comm, sample_tensors(Dtype::fp32), Split::even, true);
  const Error error = error_of(*comm, [&] {
    checkpoint::save(*comm, folder / "file", 1, sample.contents, {.layout = GetParam()}, 0);
  });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_TRUE(contains(error, "cannot make the folder " + (folder / "file"))) << error.what();
}

INSTANTIATE_TEST_SUITE_P(Only, SharedFile, testing::Values(Layout::shared_file));
INSTANTIATE_TEST_SUITE_P(Layouts, Checkpoint, testing::Values(Layout::shared_file, Layout::file_per_rank),
                         [](const auto& info) { return layout_names[static_cast<int>(info.param)]; });

}  // namespace
}  // namespace shardmark::checkpoint
