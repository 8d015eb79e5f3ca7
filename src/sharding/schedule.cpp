// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "sharding/schedule.hpp"

#include <algorithm>
#include <deque>

namespace shardmark {

namespace {

/// A stay at one unit: what is computed there, and what becomes of the unit's buffers before and after.
struct Visit {
  std::size_t unit = 0;
  std::size_t micro_batch = 0;
  std::vector<Action> compute;
  bool opens_gradients = false;
  bool reshards = false;
  bool reduces = false;
};

/// The visits of one micro-batch in order: forward, loss, and when training backward.
std::vector<Visit> visits_of_micro_batch(const ScheduleInput& in, std::size_t micro_batch, bool training) {
  std::vector<Action> actions;
  const std::size_t last_stage = in.unit_of_stage.size() - 1;
  for (std::size_t stage = 0; stage < last_stage; ++stage) actions.push_back({Verb::forward, stage});
  actions.push_back({Verb::loss, last_stage});
  for (std::size_t stage = last_stage; training && stage-- > 0;) actions.push_back({Verb::backward, stage});

  std::vector<Visit> visits;
  for (const Action& action : actions) {
    const std::size_t unit = in.unit_of_stage[action.index];
    if (visits.empty() || visits.back().unit != unit) {
      visits.emplace_back();
      visits.back().unit = unit;
      visits.back().micro_batch = micro_batch;
    }
    visits.back().compute.push_back(action);
  }
  return visits;
}

/// Marks where each unit's gradients open and are reduced, and where its parameters are given up, in the
/// visits of one micro-batch.
void mark_buffers(std::vector<Visit>& visits, const ScheduleInput& in, bool training) {
  const Strategy& strategy = in.strategy;
  const auto makes_gradients = [](const Visit& v) { return v.compute.back().verb != Verb::forward; };
  constexpr std::size_t never = ~std::size_t{0};
  std::vector<std::size_t> first_gradients(in.is_root.size(), never), last(in.is_root.size(), never);
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const std::size_t unit = visits[i].unit;
    if (makes_gradients(visits[i])) first_gradients[unit] = std::min(first_gradients[unit], i);
    last[unit] = i;
  }
  for (std::size_t i = 0; i < visits.size(); ++i) {
    Visit& visit = visits[i];
    const bool last_of_micro_batch = last[visit.unit] == i;
    const bool first_with_gradients = training && first_gradients[visit.unit] == i;
    const bool first_batch = visit.micro_batch == 0, last_batch = visit.micro_batch + 1 == in.micro_batches;
    visit.opens_gradients = first_with_gradients && (first_batch || !strategy.gradients_whole);
    visit.reduces = training && last_of_micro_batch && (last_batch || !strategy.gradients_whole);
    visit.reshards = last_of_micro_batch ? (last_batch || !strategy.parameters_whole)
                                         : (strategy.reshard_after_forward && !in.is_root[visit.unit]);
  }
}

/// Turns visits into actions, with gathers ahead of use and reductions behind it.
class Planner {
 public:
  Planner(const ScheduleInput& in, std::vector<Visit> visits) : in_(in), visits_(std::move(visits)) {
    held_.assign(in.is_root.size(), false);
    std::vector<bool> held = held_;
    for (std::size_t i = 0; i < visits_.size(); ++i) {
      if (!held[visits_[i].unit]) gathers_.push_back(i);
      held[visits_[i].unit] = !visits_[i].reshards;
    }
  }

  std::vector<Action> plan() {
    for (std::size_t i = 0; i < visits_.size(); ++i) {
      const Visit& visit = visits_[i];
      if (i == 0 || visits_[i - 1].micro_batch != visit.micro_batch)
        add(Verb::begin_micro_batch, visit.micro_batch);
      gather_up_to(i);
      if (unshards(in_) && std::binary_search(gathers_.begin(), gathers_.end(), i))
        add(Verb::wait_unsharded, visit.unit);
      if (visit.opens_gradients) {
        finish_reduction(visit.unit);
        add(Verb::open_gradients, visit.unit);
      }
      actions_.insert(actions_.end(), visit.compute.begin(), visit.compute.end());
      if (visit.reshards) {
        if (unshards(in_)) add(Verb::reshard, visit.unit);
        held_[visit.unit] = false;
      }
      if (visit.reduces) start_reduction(visit);
    }
    while (!in_flight_.empty()) finish_reduction(in_flight_.front().unit);
    start_all_reduces();
    for (std::size_t unit : all_reducing_) add(Verb::wait_all_reduced, unit);
    return std::move(actions_);
  }

 private:
  struct Reduction {
    std::size_t unit;
    bool last;  ///< of the step: the replicas are summed next
  };

  void add(Verb verb, std::size_t index) { actions_.push_back({verb, index}); }

  /// Starts the gather that visit i needs, and those of up to k visits after it.
  void gather_up_to(std::size_t i) {
    while (next_gather_ < gathers_.size()) {
      const std::size_t wanted = gathers_[next_gather_];
      const std::size_t unit = visits_[wanted].unit;
      const auto first_ahead = std::upper_bound(gathers_.begin(), gathers_.begin() + next_gather_, i);
      const auto ahead = static_cast<int>(gathers_.begin() + next_gather_ - first_ahead);
      if (wanted > i && (ahead >= in_.prefetch || held_[unit])) break;
      if (unshards(in_)) add(Verb::unshard, unit);
      held_[unit] = true;
      ++next_gather_;
    }
  }

  void start_reduction(const Visit& visit) {
    const bool last = visit.micro_batch + 1 == in_.micro_batches;
    if (in_.shard_size == 1) {
      if (last) start_all_reduce(visit.unit);
      return;
    }
    const bool root = in_.is_root[visit.unit];
    const auto others = [&] {
      return std::count_if(in_flight_.begin(), in_flight_.end(),
                           [&](const Reduction& r) { return !in_.is_root[r.unit]; });
    };
    while (!root && others() >= in_.reductions_in_flight) finish_reduction(in_flight_.front().unit);
    add(Verb::reduce, visit.unit);
    in_flight_.push_back({visit.unit, last});
  }

  void finish_reduction(std::size_t unit) {
    const auto it = std::find_if(in_flight_.begin(), in_flight_.end(),
                                 [&](const Reduction& r) { return r.unit == unit; });
    if (it == in_flight_.end()) return;
    const bool last = it->last;
    in_flight_.erase(it);
    add(Verb::wait_reduced, unit);
    if (last) start_all_reduce(unit);
  }

  void start_all_reduce(std::size_t unit) {
    if (in_.replicas == 1) return;
    to_sum_.push_back(unit);
    if (in_.summed_together > 0) elements_to_sum_ += in_.slices[unit];
    if (elements_to_sum_ >= in_.summed_together) start_all_reduces();
  }

  void start_all_reduces() {
    for (std::size_t unit : to_sum_) add(Verb::all_reduce, unit);
    all_reducing_.insert(all_reducing_.end(), to_sum_.begin(), to_sum_.end());
    to_sum_.clear();
    elements_to_sum_ = 0;
  }

  const ScheduleInput& in_;
  std::vector<Visit> visits_;
  std::vector<std::size_t> gathers_;  ///< visits before which their unit is gathered
  std::size_t next_gather_ = 0;
  std::vector<bool> held_;  ///< by unit: unsharded or on the way
  std::deque<Reduction> in_flight_;
  std::vector<std::size_t> to_sum_, all_reducing_;
  std::size_t elements_to_sum_ = 0;
  std::vector<Action> actions_;
};

std::vector<Action> make_schedule(ScheduleInput input, bool training) {
  // A shard group of one has everything whole, but for copies.
  if (input.shard_size == 1) input.strategy.gradients_whole = true;
  if (!unshards(input)) input.strategy.parameters_whole = true;
  std::vector<Visit> visits;
  for (std::size_t m = 0; m < input.micro_batches; ++m) {
    auto more = visits_of_micro_batch(input, m, training);
    mark_buffers(more, input, training);
    visits.insert(visits.end(), more.begin(), more.end());
  }
  return Planner(input, std::move(visits)).plan();
}

}  // namespace

std::vector<Action> make_training_schedule(const ScheduleInput& input) {
  return make_schedule(input, true);
}

std::vector<Action> make_evaluation_schedule(const ScheduleInput& input) {
  return make_schedule(input, false);
}

bool unshards(const ScheduleInput& input) {
  return input.shard_size > 1 || input.copies;
}

std::vector<std::uint64_t> counts_in_step(ScheduleInput input, Verb verb) {
  const auto counts = [&](std::size_t micro_batches) {
    input.micro_batches = micro_batches;
    std::vector<std::uint64_t> by_unit(input.is_root.size());
    for (const Action& action : make_training_schedule(input))
      if (action.verb == verb) ++by_unit[action.index];
    return by_unit;
  };
  const std::size_t all = input.micro_batches;
  std::vector<std::uint64_t> result = counts(std::min<std::size_t>(all, 3));
  if (all <= 3) return result;
  const std::vector<std::uint64_t> of_two = counts(2);
  for (std::size_t u = 0; u < result.size(); ++u) result[u] += (all - 3) * (result[u] - of_two[u]);
  return result;
}

std::size_t started_together(const std::vector<Action>& schedule, std::size_t first) {
  const auto starts = [](const Action& action) {
    return action.verb == Verb::unshard || action.verb == Verb::reduce || action.verb == Verb::all_reduce;
  };
  std::size_t end = first;
  while (end < schedule.size() && starts(schedule[end])) ++end;
  return std::max<std::size_t>(1, end - first);
}

std::size_t count(const std::vector<Action>& schedule, Verb verb, std::size_t unit) {
  return std::count(schedule.begin(), schedule.end(), Action{verb, unit});
}

}  // namespace shardmark
