// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "comm/communicator.hpp"

namespace shardmark {

/// out[i] = parts[0][i] + parts[1][i] + … in this order, or their maximum; n elements, at least one part.
/// 16-bit floats are added up in float and rounded once. `out` is other memory, or exactly one of the parts.
/// Plain loops: any thread may call it.
void reduce_on_host(const std::vector<const void*>& parts, void* out, std::size_t n, Dtype dtype,
                    Reduction op);

}  // namespace shardmark
