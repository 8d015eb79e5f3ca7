// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/types.hpp"
#include "optim/optimizer.hpp"

namespace shardmark {

/// The sum of the squares of each segment of a shard's gradients, in double, to sums (segments): two
/// launches, which nobody waits for. The sum over all shards is the square of the global norm; it does not
/// depend on the sharding beyond the rounding of double. `scratch` has an element for each chunk.
template <class G>
void sums_of_squares(const Exec& exec, const Vector<const G>& gradients_of_shard, const Chunks& chunks,
                     const Vector<double>& scratch, const Vector<double>& sums);

/// What to multiply gradients with so that a global norm of `norm` becomes `clip` at most (Pascanu, Mikolov,
/// Bengio 2013; the 1e-6 is PyTorch's). 1 where clip = 0.
double clip_scale(double norm, double clip);

}  // namespace shardmark
