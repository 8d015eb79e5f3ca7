# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# NCCL and the CUDA runtime as the target shardmark_nccl. The back end speaks pointers, so it is compiled and linked on
# host-only builds, too, where there is something to link. NCCL_ROOT or NCCL_HOME name its folder; else it is looked for
# beside the CUDA toolkit, on the system, in an NVIDIA HPC SDK, and in the Python package nvidia-nccl.
#
# For the caller: nccl_target, empty without it; nccl_summary.

set(SHARDMARK_NCCL AUTO CACHE STRING "Collectives by NCCL: AUTO (where NCCL and the CUDA toolkit are found), ON, OFF")
set_property(CACHE SHARDMARK_NCCL PROPERTY STRINGS AUTO ON OFF)
if(NOT SHARDMARK_NCCL MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SHARDMARK_NCCL=${SHARDMARK_NCCL} is not one of AUTO, ON, OFF.")
endif()

set(nccl_target "")
set(nccl_problem "")
if(SHARDMARK_NCCL STREQUAL "OFF")
  set(nccl_summary "off")
else()
  find_package(CUDAToolkit QUIET)
  set(nccl_root ${NCCL_ROOT} ${NCCL_HOME} $ENV{NCCL_ROOT} $ENV{NCCL_HOME})
  set(nccl_folders ${nccl_root})
  if(NOT nccl_root)
    # An HPC SDK has its toolkits in …/<version>/cuda/<CUDA> and NCCL in …/<version>/comm_libs/<CUDA>/nccl.
    list(APPEND nccl_folders ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_BIN_DIR}/..)
    file(GLOB nccl_sdk_folders ${CUDAToolkit_BIN_DIR}/../../../comm_libs/${CUDAToolkit_VERSION_MAJOR}.*/nccl
         $ENV{NVHPC_ROOT}/comm_libs/nccl $ENV{NVHPC_ROOT}/comm_libs/${CUDAToolkit_VERSION_MAJOR}.*/nccl)
    list(APPEND nccl_folders ${nccl_sdk_folders})
    find_package(Python3 QUIET COMPONENTS Interpreter)
    if(Python3_FOUND)
      execute_process(COMMAND ${Python3_EXECUTABLE} -c "import nvidia.nccl as n; print(list(n.__path__)[0], end='')"
                      OUTPUT_VARIABLE nccl_pip_folder ERROR_QUIET)
      list(APPEND nccl_folders ${nccl_pip_folder})
    endif()
  endif()
  # A root that was asked for is taken, or nothing is. Header and library come from the same folder.
  set(nccl_names nccl libnccl.so.2)
  foreach(folder IN LISTS nccl_folders)
    if(NOT NCCL_INCLUDE_DIR AND NOT NCCL_LIBRARY)
      find_path(NCCL_INCLUDE_DIR nccl.h PATHS ${folder}/include NO_DEFAULT_PATH)
      find_library(NCCL_LIBRARY NAMES ${nccl_names} PATHS ${folder} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
      if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
        unset(NCCL_INCLUDE_DIR CACHE)
        unset(NCCL_LIBRARY CACHE)
      endif()
    endif()
  endforeach()
  if(NOT nccl_root)
    find_path(NCCL_INCLUDE_DIR nccl.h)
    find_library(NCCL_LIBRARY NAMES ${nccl_names})
  endif()

  if(NOT CUDAToolkit_FOUND)
    set(nccl_problem "The CUDA toolkit, which NCCL needs, was not found: give -DCUDAToolkit_ROOT=FOLDER")
  elseif(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
    set(nccl_problem "NCCL was not found: install libnccl-dev, or give -DNCCL_ROOT=FOLDER")
  else()
    set(nccl_version "")
    file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h nccl_numbers REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
    foreach(line IN LISTS nccl_numbers)
      string(REGEX MATCH "[0-9]+" number "${line}")
      string(APPEND nccl_version ".${number}")
    endforeach()
    string(SUBSTRING "${nccl_version}" 1 -1 nccl_version)
    if(nccl_version VERSION_LESS 2.14)  # non-blocking communicators
      set(nccl_problem "NCCL ${nccl_version} in ${NCCL_INCLUDE_DIR} is too old: install 2.14 or newer, or give \
-DNCCL_ROOT=FOLDER")
    endif()
  endif()

  if(nccl_problem)
    set(nccl_summary "not used. ${nccl_problem}")
  else()
    set(nccl_target shardmark_nccl)
    add_library(shardmark_nccl INTERFACE)
    target_include_directories(shardmark_nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
    target_link_libraries(shardmark_nccl INTERFACE ${NCCL_LIBRARY} CUDA::cudart)
    target_compile_definitions(shardmark_nccl INTERFACE SHARDMARK_HAVE_NCCL)
    set(nccl_summary "${nccl_version}, ${NCCL_LIBRARY}")
    if(NOT Kokkos_ENABLE_CUDA)
      string(APPEND nccl_summary ", linked but of no use: Kokkos has no CUDA")
    endif()
  endif()
endif()

if(SHARDMARK_NCCL STREQUAL "ON")
  shardmark_require(nccl_target "${nccl_problem}, or -DSHARDMARK_NCCL=OFF.")
endif()
