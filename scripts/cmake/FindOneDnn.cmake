# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# oneDNN, which multiplies bf16 matrices on hosts, as the target shardmark_onednn. Its own package file is left
# alone: Debian's asks for OpenCL. dnnl_ROOT or CMAKE_PREFIX_PATH choose another oneDNN than the system's.
#
# For the caller: onednn_target, empty without it; onednn_summary.

set(SHARDMARK_ONEDNN AUTO CACHE STRING "bf16 products on the host by oneDNN: AUTO (where found), ON, OFF")
set_property(CACHE SHARDMARK_ONEDNN PROPERTY STRINGS AUTO ON OFF)
if(NOT SHARDMARK_ONEDNN MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SHARDMARK_ONEDNN=${SHARDMARK_ONEDNN} is not one of AUTO, ON, OFF.")
endif()

set(onednn_target "")
if(Kokkos_ENABLE_CUDA)
  set(onednn_summary "not looked for: products run on the device")
elseif(SHARDMARK_ONEDNN STREQUAL "OFF")
  set(onednn_summary "off: bf16 products on the host are emulated")
else()
  find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp HINTS ${dnnl_ROOT} $ENV{dnnl_ROOT} PATH_SUFFIXES include)
  find_library(ONEDNN_LIBRARY dnnl HINTS ${dnnl_ROOT} $ENV{dnnl_ROOT} PATH_SUFFIXES lib lib64)
  if(ONEDNN_INCLUDE_DIR AND ONEDNN_LIBRARY)
    set(onednn_target shardmark_onednn)
  endif()
  set(onednn_summary "not found: bf16 products on the host are emulated (install libdnnl-dev)")
endif()
if(SHARDMARK_ONEDNN STREQUAL "ON" AND Kokkos_ENABLE_CUDA)
  message(FATAL_ERROR "SHARDMARK_ONEDNN=ON does not go with Kokkos for CUDA, where products run on the device: give "
                      "-DSHARDMARK_ONEDNN=AUTO.")
elseif(SHARDMARK_ONEDNN STREQUAL "ON")
  shardmark_require(onednn_target
    "oneDNN was not found: install libdnnl-dev, or give -Ddnnl_ROOT=FOLDER or -DSHARDMARK_ONEDNN=OFF.")
endif()

if(onednn_target)
  set(onednn_version "")
  file(STRINGS ${ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h onednn_numbers
       REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  foreach(line IN LISTS onednn_numbers)
    string(REGEX MATCH "[0-9]+$" number "${line}")
    string(APPEND onednn_version ".${number}")
  endforeach()
  string(SUBSTRING "${onednn_version}" 1 -1 onednn_version)
  add_library(shardmark_onednn INTERFACE)
  target_include_directories(shardmark_onednn SYSTEM INTERFACE ${ONEDNN_INCLUDE_DIR})
  target_link_libraries(shardmark_onednn INTERFACE ${ONEDNN_LIBRARY})
  target_compile_definitions(shardmark_onednn INTERFACE SHARDMARK_ONEDNN)
  set(onednn_summary "${onednn_version}, ${ONEDNN_LIBRARY}")
endif()
