// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "core/device.hpp"

#include <Kokkos_Core.hpp>

#ifdef KOKKOS_ENABLE_CUDA
#include "core/cuda_call.hpp"
#endif

namespace shardmark {

#ifdef KOKKOS_ENABLE_CUDA

namespace {

cudaDeviceProp current_properties(int& device) {
  SHARDMARK_CUDA(cudaGetDevice(&device));
  cudaDeviceProp properties;
  SHARDMARK_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties;
}

}  // namespace

int choose_device(int node_rank) {
  int count = 0;
  SHARDMARK_CUDA(cudaGetDeviceCount(&count));
  if (count == 0) throw EnvironmentError("CUDA: cudaGetDeviceCount found no device");
  const int device = node_rank % count;
  SHARDMARK_CUDA(cudaSetDevice(device));
  return device;
}

std::string device_name() {
  int device = 0;
  const cudaDeviceProp properties = current_properties(device);
  return std::to_string(device) + ": " + properties.name;
}

std::string device_uuid() {
  int device = 0;
  const cudaDeviceProp properties = current_properties(device);
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    constexpr const char* digits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(properties.uuid.bytes[i]);
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += {digits[byte / 16], digits[byte % 16]};
  }
  return text;
}

std::string device_topology() {
  int device = 0, count = 0, peers = 0;
  SHARDMARK_CUDA(cudaGetDevice(&device));
  SHARDMARK_CUDA(cudaGetDeviceCount(&count));
  char bus[32] = "";
  SHARDMARK_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
  for (int other = 0; other < count; ++other) {
    int reads = 0;
    if (other != device) SHARDMARK_CUDA(cudaDeviceCanAccessPeer(&reads, device, other));
    peers += reads;
  }
  return std::string("PCI ") + bus + ", peer of " + std::to_string(peers) + " of " +
         std::to_string(count - 1);
}

#else

int choose_device(int) {
  return -1;
}
std::string device_name() {
  return "";
}
std::string device_uuid() {
  return "";
}
std::string device_topology() {
  return "";
}

#endif

}  // namespace shardmark
