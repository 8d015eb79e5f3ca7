# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# Finds every dependency and puts it on one interface target, shardmark_dependencies.

include(FindKokkosPair)

set(MPI_CXX_SKIP_MPICXX TRUE)
find_package(MPI REQUIRED COMPONENTS CXX)
set(HDF5_PREFER_PARALLEL TRUE)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(BLAS REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)

add_library(shardmark_dependencies INTERFACE)
target_link_libraries(shardmark_dependencies INTERFACE shardmark_kokkos MPI::MPI_CXX ${HDF5_C_LIBRARIES}
                      ${BLAS_LIBRARIES} tomlplusplus::tomlplusplus nlohmann_json::nlohmann_json fmt::fmt
                      CLI11::CLI11)
target_include_directories(shardmark_dependencies SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_compile_options(shardmark_dependencies INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -fno-math-errno -fopenmp-simd>)
if(SHARDMARK_NATIVE)
  target_compile_options(shardmark_dependencies INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
