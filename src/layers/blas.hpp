// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shardmark {

/// [Note: BLAS kernels] An OpenBLAS that does not know the processor falls back to kernels of 2004
/// (Prescott), twenty times slower; 0.3.21 does so on servers newer than itself. The choice is made while the
/// library loads, so the cure is to set OPENBLAS_CORETYPE by what the processor can do and to start the
/// program again.

/// Call first in main, before MPI. Returns where nothing is to be done: another BLAS, a fitting choice, or
/// one that the user made by OPENBLAS_CORETYPE. Else the process image is replaced by itself and this does
/// not return.
void restart_with_fitting_blas_kernels(char** argv);

/// Name, version and kernels of the BLAS in use, as far as it tells.
std::string blas_description();

}  // namespace shardmark
