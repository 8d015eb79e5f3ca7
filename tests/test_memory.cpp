// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "small_run.hpp"
#include "train/ledger.hpp"

namespace shardmark {
namespace {

/// Runs on each back end that there is.
class Ledger : public testing::TestWithParam<const char*> {
 protected:
  const Communicator& world() const { return *world_; }

 private:
  std::unique_ptr<Communicator> world_ = make_world_communicator(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Backends, Ledger,
                         testing::ValuesIn(exec_is_host ? std::vector<const char*>{"mpi", "node"}
                                                        : std::vector<const char*>{"mpi"}));

std::uint64_t model_state(const MemoryBytes& bytes) {
  return bytes[static_cast<int>(MemoryClass::parameters)] + bytes[static_cast<int>(MemoryClass::gradients)] +
         bytes[static_cast<int>(MemoryClass::optimizer)];
}

// Bytes a parameter, from the design: b = bytes of an element, S = shard group, AdamW.
double bytes_a_parameter(const std::string& strategy, double b, double S) {
  if (strategy == "ddp") return 4 * b;
  if (strategy == "zero1") return 2 * b + 2 * b / S;
  return 4 * b / S;
}

template <class T>
void expect_model_state_by_formula(const Communicator& world) {
  const std::vector<std::string> model = {"model.width=96", "model.layers=3", "model.vocab=97",
                                          "model.context=33"};
  const int P = world.size();
  for (const char* strategy : {"ddp", "zero1", "zero2", "zero3", "hybrid"}) {
    auto overrides = model;
    overrides.push_back(std::string("parallel.strategy=") + strategy);
    const int S = std::string(strategy) == "ddp"      ? 1
                  : std::string(strategy) == "hybrid" ? valid_shard_sizes(P)[1 % valid_shard_sizes(P).size()]
                                                      : P;
    if (std::string(strategy) == "hybrid") overrides.push_back("parallel.shard_size=" + std::to_string(S));
    const MemoryLedger ledger;
    SmallRun<T> run(world, overrides);
    run.trainer->step();
    const double expected = bytes_a_parameter(strategy, sizeof(T), S) *
                            static_cast<double>(run.trainer->plan().parameter_count());
    EXPECT_NEAR(static_cast<double>(model_state(ledger.peak())), expected, 0.02 * expected) << strategy;

    const MemoryBytes predicted = predict_memory(run.config, run.trainer->plan());
    for (std::size_t i = 0; i + 1 < predicted.size(); ++i)
      EXPECT_EQ(ledger.peak()[i], predicted[i]) << strategy << " " << memory_class_names[i];
  }
}

TEST_P(Ledger, ModelStateIsThatOfTheFormulasInFloat) {
  expect_model_state_by_formula<float>(world());
}
TEST_P(Ledger, ModelStateIsThatOfTheFormulasInDouble) {
  expect_model_state_by_formula<double>(world());
}

TEST_P(Ledger, NothingIsAllocatedInAStep) {
  for (const StrategyCase& c : strategy_cases(world().size())) {
    const MemoryLedger ledger;
    SmallRun<float> run(world(), c.overrides);
    run.trainer->step();
    const MemoryBytes before = ledger.current(), peak = ledger.peak();
    run.trainer->step();
    EXPECT_EQ(ledger.current(), before) << c.name;
    EXPECT_EQ(ledger.peak(), peak) << c.name;
  }
}

TEST_P(Ledger, EndsWithEverythingGivenBack) {
  const MemoryLedger ledger;
  {
    SmallRun<float> run(world(), {});
    run.trainer->step();
    EXPECT_GT(model_state(ledger.current()), 0u);
  }
  for (std::uint64_t bytes : ledger.current()) EXPECT_EQ(bytes, 0u);
}

// Spaces by their Kokkos names; peaks need not fall together.
TEST_P(Ledger, CountsByPlace) {
  const auto place = [](const char* space) { return MemoryLedger::place_of(space); };
  EXPECT_EQ(place("Host"), MemoryPlace::host);
  for (const char* pinned : {"CudaHostPinned", "HIPHostPinned", "SYCLHostUSM"})
    EXPECT_EQ(place(pinned), MemoryPlace::pinned) << pinned;
  for (const char* device : {"Cuda", "CudaUVM", "HIP", "SYCLDeviceUSM"})
    EXPECT_EQ(place(device), MemoryPlace::device) << device;

  const MemoryLedger ledger;
  int memory = 0;
  const auto pinned = Kokkos::Tools::make_space_handle("CudaHostPinned");
  Kokkos::Tools::allocateData(pinned, "shardmark::test::pinned", &memory, 100);
  Kokkos::Tools::allocateData(pinned, "shardmark::test::pinned", &memory, 50);
  Kokkos::Tools::deallocateData(pinned, "shardmark::test::pinned", &memory, 100);
  Kokkos::Tools::allocateData(Kokkos::Tools::make_space_handle("Cuda"), "shardmark::test::device", &memory,
                              7);
  EXPECT_EQ(ledger.peak_by_place(), (PlaceBytes{7, 150, 0}));
}

// On devices all of a run is in their memory but mirrors for the loss, the norm and the batch.
TEST_P(Ledger, ARunIsInDeviceMemory) {
  const MemoryLedger ledger;
  SmallRun<float> run(world(), {});
  run.trainer->step();
  const auto on_device = static_cast<std::size_t>(exec_is_host ? MemoryPlace::host : MemoryPlace::device);
  EXPECT_GT(ledger.peak_by_place()[on_device], model_state(ledger.peak()));
  if (!exec_is_host) {
    EXPECT_LT(ledger.peak_by_place()[static_cast<int>(MemoryPlace::pinned)], 4096u);
  }
}

/// This process's resident pages, those that n processes hold at one nth (Pss); 0 where unknown.
std::uint64_t proportional_resident_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string word; rollup >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == "Pss:" && rollup >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

// The ledger against something outside it: the kernel's own figures, on 540 MB of model state in all. A page
// of a shared window is in the resident size of every rank that has read it, so windows are compared by
// proportional sizes, summed over ranks.
TEST_P(Ledger, AgreesWithTheProcessOnALargeModel) {
  const bool shares = world().backend() != "mpi";
  const auto resident = [&] {
    return shares ? world().host_sum(proportional_resident_bytes()) : peak_resident_bytes();
  };
  const std::uint64_t before = resident();
  if (before == 0) GTEST_SKIP() << "the system does not tell the size of a process";
  if (!shares && std::string(GetParam()) != "mpi") GTEST_SKIP() << "one rank shares nothing";
  const MemoryLedger ledger;
  SmallRun<float> run(world(),
                      {"model.width=512", "model.layers=20", "model.vocab=500", "model.heads=8",
                       "train.global_batch=" + std::to_string(world().size()), "train.micro_batch=1"});
  EXPECT_GT(16.0 * static_cast<double>(run.trainer->plan().parameter_count()), 500e6);
  run.trainer->step();
  world().barrier();
  const double grown = static_cast<double>(resident() - before);
  double booked = static_cast<double>(sum_of(ledger.peak()));
  if (shares) booked = world().host_sum(booked);
  EXPECT_NEAR(grown, booked, 0.1 * booked);
}

}  // namespace
}  // namespace shardmark
