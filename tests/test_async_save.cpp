// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "checkpoint_sample.hpp"
#include "small_run.hpp"
#include "train/async_save.hpp"
#include "train/ledger.hpp"

namespace shardmark {
namespace {

using checkpoint::TemporaryFolder;

const Communicator& world() {
  static const Communicator* const communicator = make_world_communicator("mpi").release();  // outlives main
  return *communicator;
}

CheckpointConfig config_for(const std::string& folder, checkpoint::Layout layout) {
  CheckpointConfig config;
  config.dir = folder;
  config.async = true;
  config.options.layout = layout;
  return config;
}

/// Fingerprint of every dataset, in order.
std::vector<std::uint64_t> fingerprints(const checkpoint::Contents& contents) {
  std::vector<std::uint64_t> values;
  for (const auto& tensor : contents.tensors) values.push_back(tensor.fingerprint);
  return values;
}

// Training goes on while the file is written; what is loaded is what was there when the save began.
TEST(AsyncSave, HoldsTheStateOfItsStepWhileTrainingGoesOn) {
  const TemporaryFolder folder(world());
  int number = 0;
  for (const StrategyCase& c : strategy_cases(world().size())) {
    const auto layout = number % 2 == 0 ? checkpoint::Layout::shared_file : checkpoint::Layout::file_per_rank;
    const CheckpointConfig config = config_for(folder / std::to_string(number++), layout);
    SmallRun<float> run(world(), c.overrides);
    TrainerState<float> state(*run.trainer, run.mesh, true);
    AsyncSave saver(*run.world, config);
    for (int round = 0; round < 2; ++round) {
      run.steps(1);
      checkpoint::Contents contents = state.contents_to_save(*run.world);
      const auto expected = fingerprints(contents);
      saver.start(run.trainer->steps_done(), std::move(contents), 0);
      EXPECT_TRUE(saver.in_flight());
      run.steps(2);
      if (round == 0) {
        while (!saver.poll()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      } else {
        EXPECT_TRUE(saver.wait());
      }
      EXPECT_FALSE(saver.in_flight() || saver.poll() || saver.wait());
      EXPECT_EQ(saver.record().count, static_cast<std::uint64_t>(round + 1));

      SmallRun<float> other(world(), c.overrides);
      TrainerState<float> loaded(*other.trainer, other.mesh);
      checkpoint::Contents found = loaded.contents_to_load();
      const std::string path = config.dir + "/" + checkpoint::file_name(saver.step());
      checkpoint::load(*other.world, path, found, config.options);
      EXPECT_EQ(fingerprints(found), expected) << c.name;
      loaded.finish_load(*other.world, path,
                         found);  // throws where the data are not those of the fingerprints
      EXPECT_EQ(std::get<std::uint64_t>(found.state.at("step")), saver.step());
    }
  }
}

TEST(AsyncSave, TakesTheMemoryThatThePlanSays) {
  for (const StrategyCase& c : strategy_cases(world().size())) {
    auto overrides = c.overrides;
    overrides.push_back("checkpoint.async=true");
    const MemoryLedger ledger;
    SmallRun<float> run(world(), overrides);
    TrainerState<float> state(*run.trainer, run.mesh, true);
    run.steps(1);
    state.contents_to_save(*run.world);
    const MemoryBytes predicted = predict_memory(run.config, run.trainer->plan());
    for (std::size_t i = 0; i + 1 < predicted.size(); ++i)
      EXPECT_EQ(ledger.peak()[i], predicted[i]) << c.name << " " << memory_class_names[i];
    // Three tensors of fp32, each element in one replica's copy, and little padding beside.
    const double all = static_cast<double>(
        run.world->host_sum(predicted[static_cast<std::size_t>(MemoryClass::checkpoint)]));
    const double elements = static_cast<double>(run.trainer->plan().parameter_count());
    EXPECT_GE(all, 12 * elements) << c.name;
    EXPECT_LE(all, 12 * (elements + 4 * 64 * 30)) << c.name;
  }
}

// The folder's name is that of a file: found out by the thread, told to all main threads alike.
TEST(AsyncSave, ErrorsSurfaceOnAllRanksAlike) {
  const TemporaryFolder folder(world());
  if (world().rank() == 0) std::ofstream(folder / "file") << "in the way";
  world().barrier();
  for (const bool polls : {true, false}) {
    const CheckpointConfig config = config_for(folder / "file", checkpoint::Layout::shared_file);
    checkpoint::Sample sample = checkpoint::make_sample(world(), checkpoint::sample_tensors(Dtype::fp32),
                                                        checkpoint::Split::even, true);
    AsyncSave saver(world(), config);
    saver.start(7, sample.contents, 0);
    const Error error = checkpoint::error_of(world(), [&] {
      if (!polls) saver.wait();
      while (polls && !saver.poll()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_TRUE(checkpoint::contains(error, folder / "file")) << error.what();
    EXPECT_FALSE(saver.in_flight());
    EXPECT_EQ(saver.record().count, 0u);
  }
}

// A save in flight ends before its memory goes.
TEST(AsyncSave, LeavingJoinsTheSaveInFlight) {
  const TemporaryFolder folder(world());
  const CheckpointConfig config = config_for(folder / "left", checkpoint::Layout::file_per_rank);
  checkpoint::Sample sample = checkpoint::make_sample(world(), checkpoint::sample_tensors(Dtype::fp32),
                                                      checkpoint::Split::cyclic, true);
  {
    AsyncSave saver(world(), config);
    saver.start(7, sample.contents, 0);
  }
  world().barrier();
  EXPECT_EQ(checkpoint::scan(config.dir).size(), 1u);
}

}  // namespace
}  // namespace shardmark
