// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "optim/clip.hpp"

#include <algorithm>

#include "core/kernels.hpp"

namespace shardmark {

template <class T>
double sum_of_squares(const Exec& exec, const FlatShard<T>& shard) {
  constexpr std::size_t row = 4096;  // elements a team
  double total = 0;
  for (const Segment& segment : *shard.segments) {
    const T* gradients = shard.gradients.data() + segment.offset;
    const std::size_t count = segment.size();
    double sum = 0;
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
        sum);
    total += sum;
  }
  return total;
}

template double sum_of_squares(const Exec&, const FlatShard<float>&);
template double sum_of_squares(const Exec&, const FlatShard<double>&);

double clip_scale(double norm, double clip) {
  return clip > 0 ? std::min(clip / (norm + 1e-6), 1.0) : 1.0;  // in this order NaN stays NaN
}

}  // namespace shardmark
