# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# What CUDA machines have in common; the file of a machine sets the processor and includes this.

# Kokkos: kernels on the device, and Serial for what is done on the host. Its own C++ standard must be 20 or newer.
set(Kokkos_ENABLE_CUDA ON CACHE BOOL "")
set(Kokkos_ENABLE_SERIAL ON CACHE BOOL "")
set(CMAKE_CXX_STANDARD 20 CACHE STRING "")
set(CMAKE_BUILD_TYPE Release CACHE STRING "")

# Kokkos Kernels: of its parts only BLAS is used, by way of cuBLAS on the device and a BLAS library on the host.
set(KokkosKernels_ENABLE_ALL_COMPONENTS OFF CACHE BOOL "")
set(KokkosKernels_ENABLE_COMPONENT_BLAS ON CACHE BOOL "")
set(KokkosKernels_ENABLE_TPL_BLAS ON CACHE BOOL "")
set(KokkosKernels_ENABLE_TPL_CUBLAS ON CACHE BOOL "")
set(KokkosKernels_ENABLE_TPL_CUSPARSE OFF CACHE BOOL "")
set(KokkosKernels_ENABLE_TPL_CUSOLVER OFF CACHE BOOL "")

# Shardmark: collectives by NCCL, or no configuration.
set(SHARDMARK_NCCL ON CACHE STRING "")

# The compiler: Kokkos' nvcc_wrapper, which calls nvcc for device code and a host compiler for the rest (set
# NVCC_WRAPPER_DEFAULT_COMPILER for another than g++). -DCMAKE_CXX_COMPILER=clang++ before -C takes Clang instead, for
# Kokkos, Kokkos Kernels and Shardmark alike.
set(kokkos_root $ENV{Kokkos_ROOT})
if(DEFINED Kokkos_ROOT)
  set(kokkos_root ${Kokkos_ROOT})
endif()
if(kokkos_root AND NOT CMAKE_CXX_COMPILER)
  set(CMAKE_CXX_COMPILER ${kokkos_root}/bin/nvcc_wrapper CACHE FILEPATH "")
endif()
