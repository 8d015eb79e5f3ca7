// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "optim/clip.hpp"

namespace shardmark {

/// The sum over all segments, on the host.
template <class G>
double sum_of_squares(const Exec& exec, const Vector<const G>& gradients,
                      const std::vector<Segment>& segments) {
  const Chunks chunks(segments);
  const OwnedVector<double> sums("shardmark::test::sums", segments.size());
  const OwnedVector<double> scratch("shardmark::test::scratch", chunks.count());
  sums_of_squares<G>(exec, gradients, chunks, scratch, sums);
  exec.fence();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), sums);
  double total = 0;
  for (std::size_t s = 0; s < segments.size(); ++s) total += host(s);
  return total;
}

}  // namespace shardmark
