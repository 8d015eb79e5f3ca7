// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "optim/clip.hpp"

#include <algorithm>

#include "core/packs.hpp"
#include "core/small_float.hpp"

namespace shardmark {

/// Adds up the parts of each segment, in order on hosts.
static void add_parts(const Exec& exec, const Chunks& chunks, const Vector<const double>& parts,
                      const Vector<double>& sums) {
  const auto first = chunks.first();
  Kokkos::parallel_for(
      "shardmark::clip::add_parts", row_policy(exec, chunks.segments()),
      KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t segment = member.league_rank(), begin = first(segment);
        const std::size_t count = first(segment + 1) - begin;
        const double* part = parts.data() + begin;
        double sum = 0;
        if constexpr (exec_is_host) {
          for (std::size_t i = 0; i < count; ++i) sum += part[i];
        } else {
          sum = row_sum(member, count, [&](std::size_t i) { return part[i]; });
        }
        if (member.team_rank() == 0) sums(segment) = sum;
      });
}

template <class G>
void sums_of_squares(const Exec& exec, const Vector<const G>& gradients_of_shard, const Chunks& chunks,
                     const Vector<double>& scratch, const Vector<double>& sums) {
  if (chunks.count() == 0) return;
  const auto table = chunks.table();
  const G* gradients = gradients_of_shard.data();
  Kokkos::parallel_for(
      "shardmark::clip::sum_of_squares", chunks.policy(exec), KOKKOS_LAMBDA(const RowMember& member) {
        const Chunk& chunk = table(member.league_rank());
        const double sum = row_sum(
            member, chunk.size,
            [](std::size_t, const G& value) {
              const double g = static_cast<double>(value);
              return g * g;
            },
            reads(gradients + chunk.offset));
        if (member.team_rank() == 0) scratch(member.league_rank()) = sum;
      });
  add_parts(exec, chunks, scratch, sums);
}

#define SHARDMARK_INSTANTIATE(G)                                                                           \
  template void sums_of_squares(const Exec&, const Vector<const G>&, const Chunks&, const Vector<double>&, \
                                const Vector<double>&);
SHARDMARK_INSTANTIATE(float)
SHARDMARK_INSTANTIATE(double)
SHARDMARK_INSTANTIATE(bf16)
#undef SHARDMARK_INSTANTIATE

double clip_scale(double norm, double clip) {
  return clip > 0 ? std::min(clip / (norm + 1e-6), 1.0) : 1.0;  // in this order NaN stays NaN
}

}  // namespace shardmark
