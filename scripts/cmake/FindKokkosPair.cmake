# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
#
# Kokkos and Kokkos Kernels as one interface target, shardmark_kokkos, whatever their packages call theirs.

find_package(Kokkos REQUIRED)
find_package(KokkosKernels REQUIRED)

add_library(shardmark_kokkos INTERFACE)
if(TARGET trilinos_kokkoskernels AND NOT TARGET Kokkos::kokkoskernels)
  # Debian's Trilinos packages: Kokkos::kokkos names an include folder that does not exist.
  target_include_directories(shardmark_kokkos SYSTEM INTERFACE ${Kokkos_INCLUDE_DIRS})
  target_link_libraries(shardmark_kokkos INTERFACE trilinos_kokkoskernels trilinos_kokkoscontainers
                        trilinos_kokkoscore)
else()
  target_link_libraries(shardmark_kokkos INTERFACE Kokkos::kokkoskernels Kokkos::kokkos)
endif()
