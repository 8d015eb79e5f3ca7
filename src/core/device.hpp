// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shardmark {

/// CUDA builds: makes device `node_rank` modulo the visible ones current and gives its number, for Kokkos to
/// take; CUDA_VISIBLE_DEVICES has its usual meaning. Throws EnvironmentError where CUDA finds no device.
/// Other builds leave the choice to Kokkos: -1. To be called before Kokkos::initialize.
int choose_device(int node_rank);

/// The current CUDA device, "0: NVIDIA H100 80GB HBM3"; empty on other builds.
std::string device_name();
/// Its UUID as nvidia-smi -L prints it, "GPU-…"; empty on other builds.
std::string device_uuid();
/// Where it is, and how many of the other visible devices it reads directly: "PCI 0000:1b:00.0, peer of 3 of
/// 3"; empty on other builds.
std::string device_topology();

}  // namespace shardmark
