// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "comm/communicator.hpp"
#include "core/runtime.hpp"
#include "core/watchdog.hpp"

// A job that hangs in the way that its arguments name, for test_watchdog.py:
//   stall HOW PROGRESS TIMEOUT
// All ranks do a few steps of an all-reduce and a small sum; then rank 1 sleeps, stops or dies, or nobody
// does and the job ends well, or rank 1 sleeps and nobody can end the job in order.
int main(int argc, char** argv) {
  using namespace shardmark;
  Runtime runtime(argc, argv);
  const std::string how = argv[1];
  const CommProgress progress = std::string(argv[2]) == "worker" ? CommProgress::worker : CommProgress::wait;
  const auto forever = std::chrono::hours(1);
  const auto world = make_world_communicator("mpi", {.progress = progress});
  Watchdog watchdog({.timeout = std::stod(argv[3]), .rank = runtime.rank(), .grace = 1, .last_resort = 1},
                    [&] {
                      if (how == "unkillable") std::this_thread::sleep_for(forever);
                      Runtime::abort(3);
                    });
  auto data = world->allocate<float>(1000, "shardmark::stall::data");
  for (int step = 1; step <= 4; ++step) {
    watchdog.enter("forward", step, 0);
    if (step == 4 && runtime.rank() == 1) {
      if (how == "stop") std::raise(SIGSTOP);
      if (how == "die") std::raise(SIGKILL);
      if (how == "sleep" || how == "unkillable") std::this_thread::sleep_for(forever);
    }
    watchdog.enter("reduce", step, 2);
    world->start_all_reduce(Exec(), data.view).wait();
    watchdog.enter("sum", step);
    world->host_sum(1);
  }
  if (runtime.rank() == 0) std::printf("ended\n");
  return 0;
}
