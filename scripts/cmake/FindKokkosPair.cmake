# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# Kokkos and Kokkos Kernels as one interface target, shardmark_kokkos, whatever their packages call theirs.
# Kokkos_ROOT, Kokkos_DIR or CMAKE_PREFIX_PATH choose another Kokkos than the system's; Kokkos Kernels is looked
# for beside it and in KokkosKernels_ROOT. A pair that does not belong together stops the configuration.
#
# For the summary: kokkos_summary, kernels_summary.

find_package(Kokkos CONFIG QUIET)
shardmark_require(Kokkos_FOUND
  "Kokkos was not found: install libtrilinos-kokkos-dev and libtrilinos-kokkos-kernels-dev, or give \
-DKokkos_ROOT=FOLDER.")
if(Kokkos_VERSION VERSION_LESS 3.4)
  message(FATAL_ERROR "Kokkos ${Kokkos_VERSION} in ${Kokkos_DIR} is too old: install Kokkos 3.4 or newer "
                      "(libtrilinos-kokkos-dev), or give its folder by -DKokkos_ROOT=FOLDER.")
endif()
if(Kokkos_ENABLE_CUDA AND NOT "CUDA" IN_LIST Kokkos_DEVICES)  # asked for, as by the files in scripts/configs
  message(FATAL_ERROR "Kokkos in ${Kokkos_DIR} has no CUDA: build it with -DKokkos_ENABLE_CUDA=ON and give its folder "
                      "by -DKokkos_ROOT=FOLDER.")
endif()
get_filename_component(kokkos_folder ${Kokkos_DIR} REALPATH)

# A root that was asked for is taken, or nothing is.
set(kokkos_root $ENV{Kokkos_ROOT})
if(DEFINED Kokkos_ROOT)
  set(kokkos_root ${Kokkos_ROOT})
endif()
if(kokkos_root)
  get_filename_component(kokkos_root ${kokkos_root} REALPATH)
  string(FIND "${kokkos_folder}/" "${kokkos_root}/" kokkos_position)
  if(NOT kokkos_position EQUAL 0)
    message(FATAL_ERROR "Kokkos_ROOT=${kokkos_root} holds no Kokkos: install Kokkos there, or give another folder.")
  endif()
endif()

get_filename_component(kokkos_siblings ${kokkos_folder} DIRECTORY)
find_package(KokkosKernels CONFIG QUIET HINTS ${kokkos_root} ${kokkos_siblings})
shardmark_require(KokkosKernels_FOUND
  "Kokkos Kernels was not found: install libtrilinos-kokkos-kernels-dev for Debian's Kokkos, or build it for the \
Kokkos ${Kokkos_VERSION} in ${Kokkos_DIR} and give -DKokkosKernels_ROOT=FOLDER.")
get_filename_component(kernels_folder ${KokkosKernels_DIR} REALPATH)

add_library(shardmark_kokkos INTERFACE)
if(TARGET Kokkos::kokkoskernels)  # upstream
  set(kernels_target Kokkos::kokkoskernels)
elseif(TARGET KokkosKernels::all_libs)  # Trilinos from 14 on
  set(kernels_target KokkosKernels::all_libs)
else()  # Trilinos 13, as in Debian 12
  set(kernels_target trilinos_kokkoskernels)
endif()
if(TARGET trilinos_kokkoscore)  # of Trilinos 13, too: its Kokkos::kokkos names an include folder that does not exist
  target_include_directories(shardmark_kokkos SYSTEM INTERFACE ${Kokkos_INCLUDE_DIRS})
  target_link_libraries(shardmark_kokkos INTERFACE ${kernels_target} trilinos_kokkoscontainers trilinos_kokkoscore)
  set(kernels_include_folders ${KokkosKernels_INCLUDE_DIRS})
else()
  target_link_libraries(shardmark_kokkos INTERFACE ${kernels_target} Kokkos::kokkos)
  get_target_property(kernels_include_folders ${kernels_target} INTERFACE_INCLUDE_DIRECTORIES)
endif()

# Packages without a version file have the version in a header, those of 3.x nowhere.
file(STRINGS ${kernels_include_folders}/KokkosKernels_config.h kernels_facts REGEX "^#define KOKKOSKERNELS_")
if(NOT KokkosKernels_VERSION AND kernels_facts MATCHES "KOKKOSKERNELS_VERSION ([0-9]+)")
  math(EXPR major "${CMAKE_MATCH_1} / 10000")
  math(EXPR minor "${CMAKE_MATCH_1} / 100 % 100")
  math(EXPR patch "${CMAKE_MATCH_1} % 100")
  set(KokkosKernels_VERSION ${major}.${minor}.${patch})
endif()

# Upstream's rule is the same release of both; development snapshots may be one minor version apart. Kokkos Kernels
# of the system is never built for a Kokkos from elsewhere.
set(pair_matches TRUE)
if(kernels_folder MATCHES "^/usr/(lib|share)" AND NOT kokkos_folder MATCHES "^/usr/(lib|share)")
  set(pair_matches FALSE)
elseif(KokkosKernels_VERSION)
  string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" ignored ${Kokkos_VERSION})
  math(EXPR kokkos_minor "${CMAKE_MATCH_1} * 100 + ${CMAKE_MATCH_2}")
  string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" ignored ${KokkosKernels_VERSION})
  math(EXPR minors_apart "${CMAKE_MATCH_1} * 100 + ${CMAKE_MATCH_2} - ${kokkos_minor}")
  if(NOT minors_apart EQUAL 0 AND NOT (minors_apart MATCHES "^-?1$" AND KokkosKernels_VERSION MATCHES "99$"))
    set(pair_matches FALSE)
  endif()
elseif(NOT Kokkos_VERSION VERSION_LESS 4)
  set(pair_matches FALSE)
endif()
if(NOT pair_matches)
  message(FATAL_ERROR "Kokkos ${Kokkos_VERSION} in ${kokkos_folder} and Kokkos Kernels ${KokkosKernels_VERSION} in "
                      "${kernels_folder} do not belong together: install Kokkos Kernels built for that Kokkos and "
                      "give -DKokkosKernels_ROOT=FOLDER, or install Debian's pair libtrilinos-kokkos-dev and "
                      "libtrilinos-kokkos-kernels-dev.")
endif()

set(kernels_blas "")
foreach(library BLAS MKL CUBLAS)
  if(kernels_facts MATCHES "#define KOKKOSKERNELS_ENABLE_TPL_${library}(;|$)")
    list(APPEND kernels_blas ${library})
  endif()
endforeach()
list(FIND kernels_blas CUBLAS kernels_cublas)
if(NOT kernels_blas OR Kokkos_ENABLE_CUDA AND kernels_cublas EQUAL -1)
  message(FATAL_ERROR "Kokkos Kernels in ${kernels_folder} was built without the BLAS that matrix products need: "
                      "build it with -DKokkosKernels_ENABLE_TPL_BLAS=ON (and _CUBLAS=ON for CUDA).")
endif()

if(NOT KokkosKernels_VERSION)
  set(KokkosKernels_VERSION "of the same package")
endif()
string(REPLACE ";" " " kokkos_devices "${Kokkos_DEVICES}")
string(REPLACE ";" " " kernels_blas "${kernels_blas}")
set(kokkos_summary "${Kokkos_VERSION}, ${kokkos_devices}, in ${Kokkos_DIR}")
set(kernels_summary "${KokkosKernels_VERSION}, with ${kernels_blas}, in ${KokkosKernels_DIR}")
