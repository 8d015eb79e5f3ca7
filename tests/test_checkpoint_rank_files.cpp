// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <set>

#include "checkpoint/folder.hpp"
#include "checkpoint/shards.hpp"
#include "checkpoint_sample.hpp"

namespace shardmark::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr Layout both_layouts[] = {Layout::shared_file, Layout::file_per_rank};

class RankFiles : public testing::Test {
 protected:
  std::string save(std::uint64_t step, Layout layout = Layout::file_per_rank, std::size_t keep = 0,
                   Split split = Split::even) {
    Sample sample = make_sample(*comm, sample_tensors(Dtype::fp32), split, true);
    sample.contents.state = {{"step", step}};
    sample.contents.state["digest"] = digest_of(sample.contents.state);
    checkpoint::save(*comm, folder.path(), step, sample.contents, {.layout = layout}, keep);
    return folder / file_name(step);
  }
  void expect_loadable(const std::string& path) {
    Sample loaded = make_sample(*comm, sample_tensors(Dtype::fp32), Split::cyclic, false);
    load(*comm, path, loaded.contents, {});
    EXPECT_EQ(wrong_elements(loaded.contents), 0u);
    verify_fingerprints(*comm, path, loaded.contents);
  }
  Error load_error(const std::string& path) {
    Sample sample = make_sample(*comm, sample_tensors(Dtype::fp32), Split::even, false);
    return error_of(*comm, [&] { load(*comm, path, sample.contents, {}); });
  }
  template <class Action>
  void on_rank_0(Action action) {
    comm->barrier();
    if (comm->rank() == 0) action();
    comm->barrier();
  }
  std::set<std::string> names() {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder.path())) found.insert(entry.path().filename());
    comm->barrier();
    return found;
  }
  std::string rank_file(std::uint64_t step, int rank) const {
    return folder / shards_name(step) + "/" + rank_file_name(static_cast<std::uint64_t>(rank));
  }

  std::unique_ptr<Communicator> comm = make_world_communicator("mpi");
  TemporaryFolder folder{*comm};
};

TEST_F(RankFiles, AnyRanksToAnyRanks) {
  std::uint64_t step = 0;
  for (const Layout layout : both_layouts)
    for (const Split split : {Split::even, Split::cyclic, Split::last_rank})
      for (int savers = 1; savers <= comm->size(); ++savers) {
        ++step;
        const auto group = comm->split(comm->rank() < savers ? 0 : 1, comm->rank());
        if (comm->rank() < savers) {
          const Sample saved = make_sample(*group, sample_tensors(Dtype::fp64), split, true);
          checkpoint::save(*group, folder.path(), step, saved.contents, {.layout = layout}, 1);
        }
        comm->barrier();
        for (int loaders = 1; loaders <= comm->size(); ++loaders) {
          const auto readers = comm->split(comm->rank() < loaders ? 0 : 1, comm->rank());
          if (comm->rank() >= loaders) continue;
          Sample loaded = make_sample(*readers, sample_tensors(Dtype::fp64), Split::even, false);
          const Report report =
              load(*readers, folder / file_name(step), loaded.contents, {.largest_call = 64});
          EXPECT_EQ(wrong_elements(loaded.contents), 0u) << savers << " to " << loaders;
          EXPECT_EQ(report.bytes, 8u * (2 * (37 * 13 + 2) + 101 + 1));
          verify_fingerprints(*readers, "file", loaded.contents);
        }
      }
}

TEST_F(RankFiles, IndexMapsEachRankToItsRange) {
  const std::string path = save(7);
  on_rank_0([&] {
    const auto tensors = sample_tensors(Dtype::fp32);
    const Index index = read_index(open_alone(path), tensors);
    EXPECT_EQ(index.files.size(), static_cast<std::size_t>(comm->size()));
    EXPECT_EQ(index.step, 7u);
    for (std::size_t i = 1; i < index.sources.size(); ++i)
      EXPECT_TRUE(index.sources[i].file != index.sources[i - 1].file ||
                  index.sources[i].tensor != index.sources[i - 1].tensor)
          << "one range a rank and tensor";
    const File last = open_alone(rank_file(7, comm->size() - 1));
    EXPECT_EQ(dataset_names(last, "/optimizer").back(), "exp_avg/wte.weight");
    EXPECT_EQ(std::get<std::uint64_t>(read_scalar(last, "/shard/ranks")), index.files.size());
  });
}

TEST_F(RankFiles, DamagedRankFilesAreErrorsByName) {
  const int victim = comm->size() - 1;
  save(1);
  const std::string path = save(2), file = rank_file(2, victim);
  const auto expect = [&](const std::string& text, const std::function<void()>& damage) {
    on_rank_0([&] {
      fs::copy_file(file, folder / "original");
      damage();
    });
    const Error error = load_error(path);
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_TRUE(contains(error, file)) << error.what();
    EXPECT_TRUE(contains(error, text)) << error.what();
    on_rank_0([&] {
      fs::remove(file);
      fs::rename(folder / "original", file);
    });
  };
  expect("can't be read: No such file", [&] { fs::remove(file); });
  expect("is truncated", [&] { fs::resize_file(file, fs::file_size(file) - 1); });
  expect("is truncated", [&] { fs::resize_file(file, 0); });
  expect("is truncated", [&] { fs::resize_file(file, fs::file_size(file) + 1); });
  expect("is not an HDF5 file", [&] {
    const auto size = fs::file_size(file);
    fs::resize_file(file, 0);
    fs::resize_file(file, size);
  });
  expect("/shard/step is another",
         [&] { fs::copy_file(rank_file(1, victim), file, fs::copy_options::overwrite_existing); });
  expect_loadable(path);
}

/// Ranks have equal parts, so that their files have one size.
TEST_F(RankFiles, SwappedFilesAndFilesOfAnotherRunAreRefused) {
  const std::vector<Tensor> tensors = {
      {"model", "a", {static_cast<std::size_t>(8 * comm->size())}, Dtype::fp32}};
  const auto save_in = [&](const std::string& where, float shift) {
    Sample sample = make_sample(*comm, tensors, Split::even, true);
    for (const Piece& piece : sample.contents.pieces)
      for (std::size_t i = piece.begin; i < piece.end; ++i)
        static_cast<float*>(piece.data)[i - piece.begin] += shift;
    checkpoint::save(*comm, where, 1, sample.contents, {.layout = Layout::file_per_rank}, 0);
  };
  save_in(folder / "a", 0);
  save_in(folder / "b", 1e12f);
  const std::string first = folder / "a/step_00000001.shards/rank_00000.h5";
  const auto refused = [&] {
    Sample sample = make_sample(*comm, tensors, Split::even, false);
    return error_of(*comm, [&] { load(*comm, folder / "a/step_00000001.h5", sample.contents, {}); });
  };
  if (comm->size() > 1) {
    const std::string second = folder / "a/step_00000001.shards/rank_00001.h5";
    const auto swap = [&] {
      fs::rename(first, folder / "third");
      fs::rename(second, first);
      fs::rename(folder / "third", second);
    };
    on_rank_0(swap);
    const Error error = refused();
    EXPECT_TRUE(contains(error, first + " is not the rank file that")) << error.what();
    EXPECT_TRUE(contains(error, "/shard/rank is another")) << error.what();
    on_rank_0(swap);
  }
  on_rank_0([&] {
    fs::copy_file(folder / "b/step_00000001.shards/rank_00000.h5", first,
                  fs::copy_options::overwrite_existing);
  });
  const Error error = refused();
  EXPECT_TRUE(contains(error, first)) << error.what();
  EXPECT_TRUE(contains(error, "/shard/fingerprint is another")) << error.what();
}

TEST_F(RankFiles, WhereverASaveIsKilledTheNewestWholeOneIsFound) {
  const std::string index = file_name(2), shards = shards_name(2);
  const std::string partial_index = "." + index + ".partial", partial_shards = "." + shards + ".partial";
  const auto rename = [&](const std::string& from, const std::string& to) {
    fs::rename(folder / from, folder / to);
  };
  const std::vector<std::pair<std::uint64_t, std::function<void()>>> states = {
      {1, [&] { fs::remove(folder / index), rename(shards, partial_shards); }},  // rank files, all written
      {1,
       [&] {  // some of them
         fs::remove(folder / index), rename(shards, partial_shards);
         fs::resize_file(folder / partial_shards + "/rank_00000.h5", 100);
       }},
      {1, [&] { rename(index, partial_index), rename(shards, partial_shards); }},  // and the index
      {1, [&] { fs::remove(folder / index); }},                                    // the folder has its name
      {1, [&] { rename(index, partial_index); }},                                  // the index is written
      {1, [&] { rename(index, partial_index), fs::resize_file(folder / partial_index, 100); }},  // in part
      {2, [&] {}},                                             // the index has its name
      {2, [&] { fs::remove(folder / file_name(1)); }},         // the old index is removed
      {2, [&] { remove_checkpoint(folder / file_name(1)); }},  // and its rank files
  };
  for (const auto& [newest, make_state] : states) {
    save(1);
    save(2);
    on_rank_0(make_state);
    ASSERT_FALSE(scan(folder.path()).empty());
    EXPECT_EQ(scan(folder.path()).back().step, newest);
    expect_loadable(scan(folder.path()).back().path);
    save(3, Layout::file_per_rank, 1);
    EXPECT_EQ(names(), (std::set<std::string>{file_name(3), shards_name(3)}));
    expect_loadable(folder / file_name(3));
    on_rank_0([&] { remove_checkpoint(folder / file_name(3)); });
  }
}

TEST_F(RankFiles, ASaveReplacesOneOfTheSameStep) {
  for (const Layout before : both_layouts)
    for (const Layout after : both_layouts) {
      save(5, before);
      const std::string path = save(5, after, 0, Split::last_rank);
      expect_loadable(path);
      std::set<std::string> expected = {file_name(5)};
      if (after == Layout::file_per_rank) expected.insert(shards_name(5));
      EXPECT_EQ(names(), expected);
    }
}

TEST_F(RankFiles, SetAsideAndBack) {
  const std::string path = save(4);
  on_rank_0([&] { set_aside(path); });
  EXPECT_TRUE(scan(folder.path()).empty());
  save(5, Layout::file_per_rank, 1);
  on_rank_0([&] {
    fs::rename(path + ".abandoned", path);
    fs::rename(folder / shards_name(4) + ".abandoned", folder / shards_name(4));
  });
  expect_loadable(path);
}

TEST_F(RankFiles, APairThatWasMovedLoads) {
  save(6);
  on_rank_0([&] {
    fs::create_directory(folder / "other");
    fs::rename(folder / file_name(6), folder / "other/renamed.h5");
    fs::rename(folder / shards_name(6), folder / "other/" + shards_name(6));
  });
  expect_loadable(folder / "other/renamed.h5");
}

TEST_F(RankFiles, EveryElementLiesInOnePiece) {
  for (const bool twice : {false, true}) {
    Sample sample = make_sample(*comm, sample_tensors(Dtype::fp32), Split::last_rank, true);
    if (comm->rank() == comm->size() - 1) {
      auto& pieces = sample.contents.pieces;
      if (twice) {
        pieces.push_back(pieces.back());
      } else {
        pieces.pop_back();
      }
    }
    const Error error = error_of(*comm, [&] {
      checkpoint::save(*comm, folder.path(), 1, sample.contents, {.layout = Layout::file_per_rank}, 0);
    });
    EXPECT_TRUE(contains(error, "elements of /optimizer/exp_avg/h.0.bias")) << error.what();
    EXPECT_TRUE(scan(folder.path()).empty());
  }
}

}  // namespace
}  // namespace shardmark::checkpoint
