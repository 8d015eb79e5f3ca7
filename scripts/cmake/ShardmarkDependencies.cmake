# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# Finds every dependency and puts it on one interface target, shardmark_dependencies, or stops with one sentence
# that says what to install, by the name of the Debian package.

# shardmark_require(CONDITION "sentence"): stops unless the variable CONDITION is true.
function(shardmark_require condition sentence)
  if(NOT ${condition})
    message(FATAL_ERROR "${sentence}")
  endif()
endfunction()

include(FindKokkosPair)

foreach(row "tomlplusplus|toml++|libtomlplusplus-dev" "nlohmann_json|JSON for Modern C++|nlohmann-json3-dev"
            "fmt|fmt|libfmt-dev" "CLI11|CLI11|libcli11-dev")
  string(REGEX MATCH "(.*)\\|(.*)\\|(.*)" ignored "${row}")
  set(package ${CMAKE_MATCH_1})
  set(name ${CMAKE_MATCH_2})
  set(debian ${CMAKE_MATCH_3})
  find_package(${package} QUIET)
  shardmark_require(${package}_FOUND "${name} was not found: install ${debian}, or give -D${package}_ROOT=FOLDER.")
endforeach()

set(MPI_DETERMINE_LIBRARY_VERSION TRUE)
find_package(MPI QUIET COMPONENTS C)
shardmark_require(MPI_C_FOUND "MPI was not found: install libopenmpi-dev, or load the MPI module of this machine.")
if(MPI_C_VERSION VERSION_LESS 3)
  message(FATAL_ERROR "This MPI implements version ${MPI_C_VERSION} only: install libopenmpi-dev, or load an MPI 3.")
endif()

set(HDF5_PREFER_PARALLEL TRUE)
find_package(HDF5 QUIET COMPONENTS C)
shardmark_require(HDF5_FOUND "Parallel HDF5 was not found: install libhdf5-openmpi-dev, or give -DHDF5_ROOT=FOLDER.")
shardmark_require(HDF5_IS_PARALLEL "HDF5 ${HDF5_VERSION} in ${HDF5_C_INCLUDE_DIRS} is serial, parallel HDF5 is needed: \
install libhdf5-openmpi-dev, or give -DHDF5_ROOT=FOLDER.")
include(CheckSameMpi)

find_package(BLAS QUIET)
shardmark_require(BLAS_FOUND "BLAS was not found: install libopenblas-pthread-dev, or give -DBLA_VENDOR=NAME.")

include(FindOneDnn)

set(cuda_libraries "")
if(Kokkos_ENABLE_CUDA)
  find_package(CUDAToolkit QUIET)
  shardmark_require(CUDAToolkit_FOUND "The CUDA toolkit was not found: give -DCUDAToolkit_ROOT=FOLDER.")
  set(cuda_libraries CUDA::cublas)
endif()
include(FindNCCL)

add_library(shardmark_dependencies INTERFACE)
target_link_libraries(shardmark_dependencies INTERFACE
  shardmark_kokkos MPI::MPI_C ${HDF5_C_LIBRARIES} ${BLAS_LIBRARIES} ${cuda_libraries} ${onednn_target} ${nccl_target}
  tomlplusplus::tomlplusplus nlohmann_json::nlohmann_json fmt::fmt CLI11::CLI11)
target_include_directories(shardmark_dependencies SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_compile_definitions(shardmark_dependencies INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)  # the C interface

if(Kokkos_ENABLE_CUDA)
  # nvcc takes fmt 9 with C++20 only where format strings are not checked at compile time.
  target_compile_definitions(shardmark_dependencies INTERFACE FMT_USE_CONSTEXPR=1 FMT_CONSTEVAL=)
endif()

# nvcc_wrapper hands these to the host compiler; Kokkos' own target brings what nvcc needs.
target_compile_options(shardmark_dependencies INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -fno-math-errno -fopenmp-simd>)
if(SHARDMARK_ARCH)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-march=${SHARDMARK_ARCH} shardmark_arch_${SHARDMARK_ARCH})
  shardmark_require(shardmark_arch_${SHARDMARK_ARCH}
    "The compiler does not know SHARDMARK_ARCH=${SHARDMARK_ARCH}: give another -march value, or an empty one.")
  target_compile_options(shardmark_dependencies INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=${SHARDMARK_ARCH}>)
endif()
