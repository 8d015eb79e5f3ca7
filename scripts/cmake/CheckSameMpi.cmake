# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# Stops where HDF5's shared library was linked with another MPI library than the one found, by their names
# (libmpi.so.40 is not libmpich.so.12): such a program would start two MPIs and crash.

# mpi_names(RESULT TAG FILE…): names of MPI libraries that FILEs carry in dynamic entries TAG.
function(mpi_names result tag)
  set(names "")
  foreach(file IN LISTS ARGN)
    if(EXISTS "${file}" AND CMAKE_READELF)
      execute_process(COMMAND ${CMAKE_READELF} -d ${file} OUTPUT_VARIABLE entries ERROR_QUIET)
      string(REGEX MATCHALL "\\(${tag}\\)[^\n]*\\[libmpi(ch)?\\.so[^]]*" found "${entries}")
      string(REGEX REPLACE "[^;]*\\[" "" found "${found}")
      list(APPEND names ${found})
    endif()
  endforeach()
  set(${result} "${names}" PARENT_SCOPE)
endfunction()

mpi_names(mpi_of_hdf5 NEEDED ${HDF5_C_LIBRARIES})
mpi_names(mpi_found SONAME ${MPI_C_LIBRARIES})
if(mpi_of_hdf5 AND mpi_found AND NOT mpi_of_hdf5 STREQUAL mpi_found)
  message(FATAL_ERROR "HDF5 in ${HDF5_C_INCLUDE_DIRS} was built with another MPI (${mpi_of_hdf5}) than the one found "
                      "(${mpi_found}): install libhdf5-openmpi-dev or libhdf5-mpich-dev to match, or give "
                      "-DHDF5_ROOT=FOLDER.")
endif()
