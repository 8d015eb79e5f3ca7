# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# What the configuration found, printed in one place.

string(REGEX MATCH "^[^\n,]*" mpi_library "${MPI_C_LIBRARY_VERSION_STRING}")
string(REGEX REPLACE "[ \t]+" " " mpi_library "${mpi_library}")
set(blas "the compiler's own")
if(BLAS_LIBRARIES)
  list(GET BLAS_LIBRARIES 0 blas)
  if(EXISTS ${blas})
    get_filename_component(blas ${blas} REALPATH)
  endif()
endif()
if(blas MATCHES "/blas/libblas\\.so")
  string(APPEND blas ", the reference implementation, which is slow: install libopenblas-pthread-dev")
endif()
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
set(flags "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}")
if(SHARDMARK_ARCH)
  string(APPEND flags " -march=${SHARDMARK_ARCH}")
endif()
string(STRIP "${flags}" flags)

message(STATUS "Shardmark ${PROJECT_VERSION}
   Kokkos          ${kokkos_summary}
   Kokkos Kernels  ${kernels_summary}
   BLAS            ${blas}
   oneDNN          ${onednn_summary}
   MPI             ${mpi_library} (MPI ${MPI_C_VERSION}), started by ${MPIEXEC_EXECUTABLE}
   HDF5            ${HDF5_VERSION}, parallel, headers in ${HDF5_C_INCLUDE_DIRS}
   NCCL            ${nccl_summary}
   Compiler        ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}: ${flags}
   Tests           ${SHARDMARK_TESTS}
")
