// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "checkpoint/format.hpp"
#include "comm/communicator.hpp"
#include "core/version.hpp"
#include "layers/blas.hpp"
#include "layers/gemm.hpp"
#include "train/report.hpp"

namespace shardmark {

namespace {

std::string processor() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

/// Variables of the environment whose names begin with `prefix`.
nlohmann::ordered_json variables(const std::string& prefix) {
  nlohmann::ordered_json found = nlohmann::ordered_json::object();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::size_t equals = text.find('=');
    if (text.rfind(prefix, 0) == 0 && equals != std::string::npos)
      found[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return found;
}

std::string dotted(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

nlohmann::ordered_json describe_build() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  nlohmann::ordered_json build;
  build["shardmark"] = version;
  build["compiler"] = __VERSION__;
  build["kokkos"] = dotted(KOKKOS_VERSION);
  build["execution_space"] = Exec::name();
  build["memory_space"] = MemorySpace::name();
  build["threads"] = Exec().concurrency();
  build["device"] = exec_is_host ? "host" : Exec::name();
  build["blas"] = blas_description();
  if (!onednn_version().empty()) build["onednn"] = onednn_version();
  build["mpi"] = mpi_library_version();
  build["mpi_io"] = mpi_io_component();
  build["hdf5"] = checkpoint::hdf5_version();
  if (!nccl_version().empty()) {
    build["nccl"] = nccl_version();
    build["nccl_environment"] = variables("NCCL_");  // hints that change its choice of paths
  }
  build["comm_backends"] = comm_backends();
  build["host"] = host;
  build["processor"] = processor();
  build["cores"] = std::thread::hardware_concurrency();
  return build;
}

}  // namespace shardmark
