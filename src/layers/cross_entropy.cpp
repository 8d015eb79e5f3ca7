// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/cross_entropy.hpp"

#include "core/math.hpp"
#include "core/packs.hpp"

namespace shardmark {

/// Adds the first n losses to loss_sum(0): one team, so in one order.
static void add_losses(const Exec& exec, std::size_t n, const Vector<double>& losses,
                       const Vector<double>& loss_sum) {
  Kokkos::parallel_for(
      "shardmark::cross_entropy::sum", row_policy(exec, 1), KOKKOS_LAMBDA(const RowMember& member) {
        const double sum = row_sum(member, n, [&](std::size_t row) { return losses(row); });
        if (member.team_rank() == 0) loss_sum(0) += sum;
      });
}

template <class T>
void cross_entropy(const Exec& exec, const Matrix<const Wide<T>>& logits, const Targets& targets,
                   const Vector<double>& losses, const Vector<double>& loss_sum) {
  using W = Wide<T>;
  const std::size_t rows = logits.extent(0), vocab = logits.extent(1);
  if (rows == 0) return;
  Kokkos::parallel_for(
      "shardmark::cross_entropy::loss", row_policy(exec, rows), KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank();
        const W* x = &logits(row, 0);
        const W largest = row_max(member, vocab, reads(x));
        const W sum = row_sum(
            member, vocab, [&](std::size_t, const W& x_i) { return math::exp(x_i - largest); }, reads(x));
        if (member.team_rank() == 0)
          losses(row) = math::log(static_cast<double>(sum)) + (largest - x[targets(row)]);
      });
  add_losses(exec, rows, losses, loss_sum);
}

template <class T>
void cross_entropy_and_gradient(const Exec& exec, double loss_scale, const Matrix<Wide<T>>& logits,
                                const Targets& targets, const Vector<double>& losses,
                                const Vector<double>& loss_sum, const Matrix<T>& dlogits) {
  using W = Wide<T>;
  const std::size_t rows = logits.extent(0), vocab = logits.extent(1);
  if (rows == 0) return;
  const auto scale = static_cast<W>(loss_scale);
  Kokkos::parallel_for(
      "shardmark::cross_entropy::gradient", row_policy(exec, rows), KOKKOS_LAMBDA(const RowMember& member) {
        const std::size_t row = member.league_rank(), target = targets(row);
        W* x = &logits(row, 0);
        T* out = &dlogits(row, 0);
        const W target_logit = x[target];
        const W largest = row_max(member, vocab, reads(x));
        const W sum = row_sum(
            member, vocab,
            [&](std::size_t, W& x_i) {
              x_i = math::exp(x_i - largest);
              return x_i;
            },
            updates(x));
        const W factor = scale / sum;
        row_apply(
            member, vocab,
            [&](std::size_t i, const W& x_i, T& out_i) {
              out_i = x_i * factor - (i == target ? scale : W(0));
            },
            reads(x), writes(out));
        if (member.team_rank() == 0)
          losses(row) = math::log(static_cast<double>(sum)) + (largest - target_logit);
      });
  add_losses(exec, rows, losses, loss_sum);
}

#define SHARDMARK_INSTANTIATE(T)                                                                           \
  template void cross_entropy<T>(const Exec&, const Matrix<const Wide<T>>&, const Targets&,                \
                                 const Vector<double>&, const Vector<double>&);                            \
  template void cross_entropy_and_gradient<T>(const Exec&, double, const Matrix<Wide<T>>&, const Targets&, \
                                              const Vector<double>&, const Vector<double>&,                \
                                              const Matrix<T>&);
SHARDMARK_FOR_SCALARS(SHARDMARK_INSTANTIATE)

}  // namespace shardmark
