// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "small_run.hpp"

namespace shardmark {
namespace {

const Communicator& world() {
  static const Communicator* const communicator = make_world_communicator("mpi").release();  // outlives main
  return *communicator;
}

/// A folder that all ranks share and rank 0 removes.
class SharedFolder {
 public:
  SharedFolder() {
    const auto base =
        std::filesystem::temp_directory_path() / ("shardmark-resume-" + std::to_string(getpid()));
    path_ = world().host_broadcast(base.string(), 0);
  }
  ~SharedFolder() {
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove_all(path_);
  }
  std::string operator/(const std::string& name) const {
    const std::string folder = path_ + "/" + name;
    if (world().rank() == 0) std::filesystem::create_directories(folder);
    world().barrier();
    return folder;
  }

 private:
  std::string path_;
};

template <class T>
std::string save(SmallRun<T>& run, const std::string& folder) {
  TrainerState<T> state(*run.trainer, run.mesh);
  checkpoint::Contents contents = state.contents_to_save(*run.world);
  contents.state = {{"step", run.trainer->steps_done()},
                    {"samples_seen", run.trainer->position().samples_seen}};
  checkpoint::save(*run.world, folder, run.trainer->steps_done(), contents, {}, 0);
  return folder + "/" + checkpoint::file_name(run.trainer->steps_done());
}

template <class T>
void load(SmallRun<T>& run, const std::string& path) {
  TrainerState<T> state(*run.trainer, run.mesh);
  checkpoint::Contents contents = state.contents_to_load();
  checkpoint::load(*run.world, path, contents, {});
  state.finish_load(*run.world, path, contents);
  run.trainer->resume_at({std::get<std::uint64_t>(contents.state.at("step")),
                          std::get<std::uint64_t>(contents.state.at("samples_seen")), 0},
                         1, 0);
}

/// Of all tensors, as text.
template <class T>
std::string fingerprints(SmallRun<T>& run) {
  std::string text;
  for (const auto& [tensor, value] : TrainerState<T>(*run.trainer, run.mesh).fingerprints(*run.world))
    text += tensor + " " + std::to_string(value) + "\n";
  return text;
}

// Saved at step 6 of 12 and resumed: bitwise what the uninterrupted run does.
TEST(Resume, ContinuesBitwise) {
  const SharedFolder folder;
  int number = 0;
  for (const StrategyCase& c : strategy_cases(world().size())) {
    auto overrides = c.overrides;
    overrides.push_back(number % 2 == 0 ? "optimizer.kind=adamw" : "optimizer.kind=sgd");
    SmallRun<float> straight(world(), overrides);
    straight.steps(6);
    const std::string path = save(straight, folder / std::to_string(number++));
    const auto expected = straight.steps(6);

    SmallRun<float> resumed(world(), overrides);
    load(resumed, path);
    const auto results = resumed.steps(6);
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].loss, expected[i].loss) << c.name << " step " << 7 + i;
      EXPECT_EQ(results[i].grad_norm, expected[i].grad_norm) << c.name;
      EXPECT_EQ(results[i].learning_rate, expected[i].learning_rate) << c.name;
    }
    EXPECT_EQ(fingerprints(straight), fingerprints(resumed)) << c.name;
  }
}

// Any P to any P', all pairs that fit into the ranks of this job, and any strategy to any other: the
// optimizer's state too.
TEST(Resume, AnyRanksToAnyRanksAndAnyStrategyToAny) {
  const SharedFolder folder;
  const std::array strategies = {"ddp", "zero3", "zero1", "zero2"};
  std::size_t number = 0;
  for (int from = 1; from <= world().size(); ++from) {
    for (const char* strategy : {"ddp", "zero3", "hybrid"}) {
      std::vector<std::string> overrides = {std::string("parallel.strategy=") + strategy};
      if (overrides[0] == "parallel.strategy=hybrid")
        overrides.push_back("parallel.shard_size=" + std::to_string(from % 2 == 0 ? from / 2 : from));
      const std::string subfolder = folder / (std::to_string(from) + strategy);
      const bool saves = world().rank() < from;
      const auto savers = world().split(saves ? 0 : 1, world().rank());
      std::string path, expected;
      if (saves) {
        SmallRun<double> run(*savers, overrides);
        run.steps(2);
        path = save(run, subfolder);
        expected = fingerprints(run);
      }
      path = world().host_broadcast(path, 0);
      expected = world().host_broadcast(expected, 0);
      for (int to = 1; to <= world().size(); ++to) {
        const std::string target = strategies[number++ % strategies.size()];
        const bool loads = world().rank() < to;
        const auto loaders = world().split(loads ? 0 : 1, world().rank());
        if (!loads) continue;
        SmallRun<double> run(*loaders, {"parallel.strategy=" + target, "train.seed=2"});
        load(run, path);
        EXPECT_EQ(fingerprints(run), expected)
            << strategy << " on " << from << " to " << target << " on " << to;
        EXPECT_EQ(run.trainer->steps_done(), 2u);
      }
    }
  }
}

}  // namespace
}  // namespace shardmark
