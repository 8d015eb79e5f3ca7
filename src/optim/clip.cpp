// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "optim/clip.hpp"

#include <algorithm>

#include "core/kernels.hpp"
#include "core/small_float.hpp"

namespace shardmark {

template <class G>
void sums_of_squares(const Exec& exec, const Vector<const G>& gradients_of_shard,
                     const std::vector<Segment>& segments, const Vector<double>& sums) {
  using Sum = Kokkos::View<double, MemorySpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  constexpr std::size_t row = 4096;  // elements a team
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const G* gradients = gradients_of_shard.data() + segments[s].offset;
    const std::size_t count = segments[s].size();
    Kokkos::parallel_reduce(
        "shardmark::clip::sum_of_squares", row_policy(exec, (count + row - 1) / row),
        KOKKOS_LAMBDA(const RowMember& member, double& part) {
          const std::size_t begin = member.league_rank() * row;
          const std::size_t width = count - begin < row ? count - begin : row;
          const double squares = row_sum(member, width, [&](std::size_t i) {
            const double g = static_cast<double>(gradients[begin + i]);
            return g * g;
          });
          if (member.team_rank() == 0) part += squares;
        },
        Sum(sums.data() + s));
  }
}

#define SHARDMARK_INSTANTIATE(G)                                                                  \
  template void sums_of_squares(const Exec&, const Vector<const G>&, const std::vector<Segment>&, \
                                const Vector<double>&);
SHARDMARK_INSTANTIATE(float)
SHARDMARK_INSTANTIATE(double)
SHARDMARK_INSTANTIATE(bf16)
#undef SHARDMARK_INSTANTIATE

double clip_scale(double norm, double clip) {
  return clip > 0 ? std::min(clip / (norm + 1e-6), 1.0) : 1.0;  // in this order NaN stays NaN
}

}  // namespace shardmark
