// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>

namespace shardmark {

/// Where the time of a training step goes, by what kernels do.
enum class Work { products, attention, norms_and_activations, loss, optimizer, copies };
inline constexpr std::array work_names = {
    "matrix products", "attention", "norms and activations", "loss", "optimizer", "copies and zeroing"};
using WorkSeconds = std::array<double, work_names.size()>;

/// Times every kernel and product of this process while it lives, sorted by label, through the callbacks of
/// Kokkos Tools. Exact on hosts, where a kernel has ended when its launch returns; on devices it sees
/// launches only. One at a time; callbacks of a tool that the user loaded are called on.
class KernelTimes {
 public:
  KernelTimes();
  ~KernelTimes();
  KernelTimes(const KernelTimes&) = delete;
  KernelTimes& operator=(const KernelTimes&) = delete;

  WorkSeconds seconds() const;

  static Work work_of(const std::string& label);
};

}  // namespace shardmark
