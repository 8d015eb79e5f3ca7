// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "core/instances.hpp"

#include <vector>

namespace shardmark {

Exec make_instance() {
#if KOKKOS_VERSION >= 40000
  if constexpr (!exec_is_host)
    return Kokkos::Experimental::partition_space(Exec(), std::vector<int>{1}).front();
#endif
  return Exec();
}

#ifdef KOKKOS_ENABLE_CUDA

void Event::record(const Exec& exec) {
  if (!event_) event_ = make_cuda_event();
  SHARDMARK_CUDA(cudaEventRecord(event_.get(), exec.cuda_stream()));
}

void Event::hold(const Exec& exec) const {
  if (event_) SHARDMARK_CUDA(cudaStreamWaitEvent(exec.cuda_stream(), event_.get(), 0));
}

void Event::wait(const char*) const {
  if (event_) SHARDMARK_CUDA(cudaEventSynchronize(event_.get()));
}

#else

void Event::record(const Exec& exec) {
  if (!exec_is_host) exec_ = exec;
}

void Event::hold(const Exec&) const {
  wait("shardmark::instances::hold: another instance goes on from here");
}

void Event::wait(const char* reason) const {
  if (exec_) fence(*exec_, reason);
}

#endif

}  // namespace shardmark
