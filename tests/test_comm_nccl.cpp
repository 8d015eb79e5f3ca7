// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "comm/nccl.hpp"
#ifdef SHARDMARK_HAVE_NCCL
#include "core/cuda_call.hpp"
#endif

namespace shardmark {
namespace {

template <class E>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "none";
}

TEST(NcclBackend, BuildsThatCantHaveItSayWhy) {
  if (!exec_is_host && !nccl_version().empty()) GTEST_SKIP() << "this build can";
  const std::string message = message_of<DeckError>([] { make_world_communicator("nccl"); });
  EXPECT_EQ(message.rfind("comm.backend = \"nccl\"", 0), 0u) << message;
  EXPECT_NE(message.find(nccl_version().empty() ? "built without NCCL" : "host memory"), std::string::npos)
      << message;
  EXPECT_NE(message.find("valid: auto, mpi"), std::string::npos) << message;
}

TEST(NcclBackend, NamesTheVersionItRunsWith) {
  if (nccl_version().empty()) GTEST_SKIP() << "built without NCCL";
  EXPECT_EQ(nccl_version().rfind("2.", 0), 0u) << nccl_version();
}

#ifdef SHARDMARK_HAVE_NCCL

bool has_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

TEST(NcclBackend, WithoutADeviceTheErrorNamesTheCall) {
  if (has_device()) GTEST_SKIP() << "here is a device";
  const std::string message = message_of<EnvironmentError>([] { NcclEngine(1); });
  EXPECT_EQ(message.rfind("CUDA: cudaGetDeviceCount", 0), 0u) << message;
}

TEST(NcclBackend, OneRankOnADevice) {
  if (!has_device()) GTEST_SKIP() << "no device";
  NcclEngine engine(60);
  const ncclComm_t comm = engine.open(NcclEngine::make_id(), 1, 0);
  float* data = nullptr;
  SHARDMARK_CUDA(cudaMalloc(reinterpret_cast<void**>(&data), 2 * sizeof(float)));
  const float sent[2] = {3, 4};
  float got[2] = {};
  SHARDMARK_CUDA(cudaMemcpy(data, sent, sizeof sent, cudaMemcpyHostToDevice));
  engine.follow(nullptr);
  const auto done = engine.launch(comm, {"ncclReduceScatter"}, [&](ncclComm_t group, cudaStream_t stream) {
    return ncclReduceScatter(data, data, 2, ncclFloat32, ncclSum, group, stream);
  });
  engine.block_until(*done);
  SHARDMARK_CUDA(cudaMemcpy(got, data, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT_EQ(got[0], 3);
  EXPECT_EQ(got[1], 4);
  SHARDMARK_CUDA(cudaFree(data));
  engine.close(comm);
}

#else

TEST(NcclBackend, WithoutADeviceTheErrorNamesTheCall) {
  GTEST_SKIP() << "built without NCCL";
}

#endif

}  // namespace
}  // namespace shardmark
