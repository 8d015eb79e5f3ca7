# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# What the configuration found, printed in one place.

string(REGEX MATCH "^[^\n,]*" mpi_library "${MPI_C_LIBRARY_VERSION_STRING}")
string(REGEX REPLACE "[ \t]+" " " mpi_library "${mpi_library}")
list(GET BLAS_LIBRARIES 0 blas_library)
get_filename_component(blas_file ${blas_library} REALPATH)
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
set(nccl "not looked for: Kokkos has no CUDA")
if(Kokkos_ENABLE_CUDA)
  set(nccl "${NCCL_LIBRARY}")
endif()

message(STATUS "Shardmark ${PROJECT_VERSION}
   Kokkos          ${kokkos_summary}
   Kokkos Kernels  ${kernels_summary}
   BLAS            ${blas_file}
   MPI             ${mpi_library} (MPI ${MPI_C_VERSION}), started by ${MPIEXEC_EXECUTABLE}
   HDF5            ${HDF5_VERSION}, parallel, headers in ${HDF5_C_INCLUDE_DIRS}
   NCCL            ${nccl}
   Compiler        ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}: \
${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}} -march=${SHARDMARK_ARCH}
   Tests           ${SHARDMARK_TESTS}
")
