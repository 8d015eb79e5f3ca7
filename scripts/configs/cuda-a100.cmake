# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# NVIDIA Ampere (A100). One file for all three projects, in this order, into the same folder DIR:
#
#   cmake -C scripts/configs/cuda-a100.cmake -S kokkos -B build-kokkos -DCMAKE_INSTALL_PREFIX=DIR \
#         -DCMAKE_CXX_COMPILER=$PWD/kokkos/bin/nvcc_wrapper
#   cmake --build build-kokkos --parallel --target install
#   cmake -DKokkos_ROOT=DIR -C scripts/configs/cuda-a100.cmake -S kokkos-kernels -B build-kernels \
#         -DCMAKE_INSTALL_PREFIX=DIR
#   cmake --build build-kernels --parallel --target install
#   cmake -DKokkos_ROOT=DIR -C scripts/configs/cuda-a100.cmake -B build
#   cmake --build build --parallel --target shardmark

set(Kokkos_ARCH_AMPERE80 ON CACHE BOOL "")
set(ENV{NVCC_WRAPPER_DEFAULT_ARCH} sm_80)  # for CMake's first test of the compiler
include(${CMAKE_CURRENT_LIST_DIR}/cuda.cmake)
