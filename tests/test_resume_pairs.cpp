// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>

#include "all_pairs.hpp"
#include "checkpoint_sample.hpp"
#include "layers/gemm.hpp"
#include "small_run.hpp"
#include "train/precision_dispatch.hpp"
#include "train/resume.hpp"

namespace shardmark {
namespace {

const Communicator& world() {
  static const Communicator* const communicator = make_world_communicator("mpi").release();  // outlives main
  return *communicator;
}

constexpr std::array strategies = {"ddp", "zero1", "zero2", "zero3", "hybrid"};
constexpr std::array precisions = {"fp32", "bf16", "fp16"};

/// One end of a way from run to run.
struct End {
  std::string strategy, precision;
  checkpoint::Layout layout;
  int ranks;

  std::vector<std::string> overrides() const {
    std::vector<std::string> all = {"parallel.strategy=" + strategy, "precision.param=" + precision,
                                    "precision.gemm=emulated"};
    if (strategy == "hybrid")
      all.push_back("parallel.shard_size=" + std::to_string(ranks % 2 == 0 ? ranks / 2 : ranks));
    return all;
  }
  std::string name() const {
    return strategy + " " + precision + " " + checkpoint::layout_names[static_cast<std::size_t>(layout)] +
           " on " + std::to_string(ranks);
  }
};

std::string text_of(const std::map<std::string, std::uint64_t>& fingerprints) {
  std::string text;
  for (const auto& [name, value] : fingerprints) text += name + " " + std::to_string(value) + "\n";
  return text;
}

/// Loads `path` where it is not empty, trains `steps` steps, and saves. Returns the fingerprints of the file.
std::string go_on(const Communicator& ranks, const End& end, const std::string& path, int steps,
                  const std::string& folder, const std::string& expected) {
  const auto overrides = end.overrides();
  const PrecisionConfig precision = small_config(overrides).precision;
  choose_gemm(precision.param, end.precision == "fp32" ? "auto" : "emulated");
  std::string fingerprints;
  with_precision(precision, [&]<class T, class G>() {
    SmallRun<T, G> run(ranks, overrides);
    TrainerState<T, G> state(*run.trainer, run.mesh);
    checkpoint::Options options;
    options.layout = end.layout;
    if (!path.empty()) {
      checkpoint::Contents contents = state.contents_to_load();
      checkpoint::load(*run.world, path, contents, options);
      state.finish_load(*run.world, path, contents);
      EXPECT_EQ(text_of(state.fingerprints(*run.world)), expected);
      run.trainer->resume_at({std::get<std::uint64_t>(contents.state.at("step")),
                              std::get<std::uint64_t>(contents.state.at("samples_seen")), 0},
                             1, 0);
    }
    run.steps(steps);
    checkpoint::save(*run.world, folder, run.trainer->steps_done(), state.contents_to_save(*run.world),
                     options, 0);
    fingerprints = text_of(state.fingerprints(*run.world));
  });
  return fingerprints;
}

// From any precision, strategy, layout and number of ranks to any other, and back: all pairs of them.
TEST(Resume, AnyPrecisionStrategyLayoutAndRanksToAnyOther) {
  const checkpoint::TemporaryFolder folder(world());
  const auto P = static_cast<std::size_t>(world().size());
  const auto rows =
      all_pairs({strategies.size(), strategies.size(), precisions.size(), precisions.size(), 2, 2, P, P},
                [](const auto&) { return true; });
  EXPECT_GE(rows.size(), strategies.size() * strategies.size());
  for (const auto& row : rows) {
    const auto end = [&](std::size_t i) {
      return End{strategies[row[i]], precisions[row[2 + i]], static_cast<checkpoint::Layout>(row[4 + i]),
                 static_cast<int>(row[6 + i]) + 1};
    };
    const End from = end(0), to = end(1);
    SCOPED_TRACE(from.name() + " to " + to.name());
    std::string expected;
    for (int turn = 0; turn < 3; ++turn) {  // there, on, and back
      const End& now = turn == 1 ? to : from;
      const auto ranks = world().split(world().rank() < now.ranks ? 0 : 1, world().rank());
      const std::string path =
          turn == 0 ? "" : folder / checkpoint::file_name(static_cast<std::uint64_t>(turn));
      if (world().rank() < now.ranks) expected = go_on(*ranks, now, path, 1, folder.path(), expected);
      expected = world().host_broadcast(expected, 0);
    }
    if (testing::Test::HasFailure()) return;
  }
}

std::string quoted(const std::string& precision) {
  return "precision.param=\"" + precision + "\"";
}

TEST(Resume, OnlyDoubleIsAnotherRunThanTheOtherPrecisions) {
  for (const char* stored : {"fp32", "fp64", "bf16", "fp16"})
    for (const char* wanted : {"fp32", "fp64", "bf16", "fp16"}) {
      Deck before(small_deck, "small"), now(small_deck, "small");
      before.set(quoted(stored));
      now.set(quoted(wanted));
      read_run_config(before);
      const RunConfig config = read_run_config(now);
      const ResumePoint point{"some.h5",
                              {{"deck", before.effective()},
                               {"data_fingerprint", std::uint64_t{5}},
                               {"loss_scale", 64.0},
                               {"loss_scale_steps", std::uint64_t{3}}},
                              {}};
      const bool other = (stored == std::string("fp64")) != (wanted == std::string("fp64"));
      try {
        require_same_run(point, now, 5, {});
        EXPECT_FALSE(other) << stored << " to " << wanted;
      } catch (const DeckError& error) {
        EXPECT_TRUE(other) << stored << " to " << wanted;
        EXPECT_NE(std::string(error.what()).find("fp64 from fp64 alone"), std::string::npos) << error.what();
      }
      const bool small = wanted == std::string("fp16");
      const LossScale own = small ? LossScale(config.precision.loss_scale, 2000) : LossScale();
      const LossScale scale = loss_scale_after(point, own);
      const bool restored = small && stored == std::string("fp16");
      EXPECT_EQ(scale.factor(), restored ? 64 : own.factor()) << stored << " to " << wanted;
      EXPECT_EQ(scale.calm_steps(), restored ? 3u : 0u);
    }
}

}  // namespace
}  // namespace shardmark
