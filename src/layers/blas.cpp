// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/blas.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

namespace shardmark {

namespace {

using TextFunction = const char* (*)();

/// What an OpenBLAS function without arguments returns; empty where the BLAS is another.
std::string ask_openblas(const char* function) {
  const auto f = reinterpret_cast<TextFunction>(dlsym(RTLD_DEFAULT, function));
  return f != nullptr ? f() : "";
}

/// Kernels for this processor, or empty where OpenBLAS' own choice is not in doubt.
std::string fitting_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return "";
}

}  // namespace

void restart_with_fitting_blas_kernels(char** argv) {
  constexpr std::array before_avx2 = {"Prescott", "Core2",   "Penryn",      "Dunnington", "Nehalem",
                                      "Atom",     "Generic", "Sandybridge", "Unknown"};
  const std::string chosen = ask_openblas("openblas_get_corename");
  const std::string fitting = fitting_kernels();
  const bool outdated = std::find(before_avx2.begin(), before_avx2.end(), chosen) != before_avx2.end();
  if (!outdated || fitting.empty() || std::getenv("OPENBLAS_CORETYPE") != nullptr) return;
  setenv("OPENBLAS_CORETYPE", fitting.c_str(), 1);
  setenv("SHARDMARK_BLAS_CHOICE", chosen.c_str(), 1);
  // These return only where they failed; the program then runs with slow kernels, as reported. By its own
  // path it keeps its name among the processes.
  std::error_code failure;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (!failure) execv(path.c_str(), argv);
  execv("/proc/self/exe", argv);
}

std::string blas_description() {
  std::string description = ask_openblas("openblas_get_config");
  if (description.empty()) return "a BLAS that does not tell its name";
  description += ", kernels " + ask_openblas("openblas_get_corename");
  if (const char* first = std::getenv("SHARDMARK_BLAS_CHOICE"))
    description += std::string(" (in place of ") + first + ", which OpenBLAS had chosen)";
  return description;
}

}  // namespace shardmark
