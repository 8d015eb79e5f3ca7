// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "core/kernels.hpp"
#include "train/trainer.hpp"

namespace shardmark {

/// Whether any value is infinite or NaN: those alone differ from themselves once 0 times them is added.
template <class T>
bool has_nonfinite(const Exec& exec, const Vector<const T>& data) {
  constexpr std::size_t row = 4096;  // elements a team
  const std::size_t count = data.extent(0);
  if (count == 0) return false;
  int found = 0;
  Kokkos::parallel_reduce(
      "shardmark::nonfinite::find", row_policy(exec, (count + row - 1) / row),
      KOKKOS_LAMBDA(const RowMember& member, int& part) {
        const std::size_t begin = member.league_rank() * row;
        const std::size_t width = count - begin < row ? count - begin : row;
        const int bad = row_sum(member, width, [&](std::size_t i) {
          const Wide<T> x = data(begin + i);
          return x - x == Wide<T>(0) ? 0 : 1;
        });
        if (member.team_rank() == 0) part += bad;
      },
      found);
  return found != 0;
}

template <class T, class G>
std::string Trainer<T, G>::nonfinite_after(const Action& action, const Batch<T>& batch) {
  const std::size_t stage = action.index;
  const auto named = [&](const char* pass) {
    return fmt::format("the {} pass of {}", pass, plan_.model.stages[stage].name);
  };
  if (action.verb == Verb::wait_unsharded || action.verb == Verb::begin_micro_batch) {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (action.verb == Verb::wait_unsharded ? u != action.index : unshards(plan_.schedule)) continue;
      const auto tensors = units_[u].parameters();
      for (std::size_t i = 0; i < units_[u].specs().size(); ++i)
        if (has_nonfinite<T>(exec_, tensors.vector(i))) return "the weights " + units_[u].specs()[i].name;
    }
  } else if (action.verb == Verb::forward) {
    if (has_nonfinite<T>(exec_, model_->output(stage, batch.samples))) return named("forward");
  } else if (action.verb == Verb::loss || action.verb == Verb::backward) {
    const auto loss = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), loss_sum_);
    if (!std::isfinite(loss(0))) return "the loss";
    if (has_nonfinite<T>(exec_, model_->input_gradient(stage, batch.samples))) return named("backward");
    const auto& unit = units_[plan_.units.unit_of_stage[stage]];
    for (std::size_t i = 0; i < unit.specs().size(); ++i)
      if (has_nonfinite<G>(exec_, unit.gradients().vector(i)))
        return "the gradient of " + unit.specs()[i].name;
  }
  return "";
}

template <class T, class G>
std::string Trainer<T, G>::locate_nonfinite() {
  constexpr int nowhere = 1 << 30;
  int position = 0, found_at = nowhere;
  std::string found;
  std::size_t micro_batch = 0;
  after_action_ = [&](const Action& action, const Batch<T>& batch) {
    if (action.verb == Verb::begin_micro_batch) micro_batch = action.index;
    if (found.empty()) {
      found = nonfinite_after(action, batch);
      found_at = position;
      if (!found.empty()) found += fmt::format(", micro-batch {} of rank {}", micro_batch, world_.rank());
    }
    ++position;
  };
  loss_and_gradients();
  after_action_ = {};
  if (found.empty()) found_at = nowhere;
  const int first = -world_.host_max(-found_at);
  if (first == nowhere) {
    int unit = 0;  // counted from the last one, so that the largest is the first
    const auto count = static_cast<int>(units_.size());
    for (int u = count; u-- > 0;)
      if (has_nonfinite<G>(exec_, units_[u].gradient_shard())) unit = count - u;
    unit = world_.host_max(unit);
    if (unit == 0) return "no place: the passes done again are finite";
    return "the reduction over the ranks of the unit of " + units_[count - unit].specs().front().name;
  }
  const int speaker = world_.host_max(found_at == first ? world_.size() - world_.rank() : 0);
  return world_.host_broadcast(found, world_.size() - speaker);
}

#define SHARDMARK_INSTANTIATE(T, G)                                                    \
  template std::string Trainer<T, G>::nonfinite_after(const Action&, const Batch<T>&); \
  template std::string Trainer<T, G>::locate_nonfinite();
SHARDMARK_FOR_PRECISIONS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
