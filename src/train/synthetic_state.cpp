// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/synthetic_state.hpp"

#include <algorithm>

#include "core/fingerprint.hpp"

namespace shardmark {
namespace {

/// Element i of tensor t; never NaN.
template <class T>
T pattern(std::size_t t, std::size_t i) {
  return static_cast<T>(static_cast<std::int32_t>(mix64((static_cast<std::uint64_t>(t) << 40) ^ i)));
}

/// Calls f(value, expected, index) for the elements of a piece.
template <class T, class F>
void for_elements(const checkpoint::Piece& piece, F f) {
  T* values = static_cast<T*>(piece.data);
  for (std::size_t i = piece.begin; i < piece.end; ++i)
    f(values[i - piece.begin], pattern<T>(piece.tensor, i), i);
}

template <class F>
void for_elements(const checkpoint::Contents& contents, F f) {
  for (const auto& piece : contents.pieces) {
    const auto of_this = [&](auto& value, auto expected, std::size_t i) { f(piece, value, expected, i); };
    if (contents.tensors[piece.tensor].dtype == Dtype::fp64)
      for_elements<double>(piece, of_this);
    else
      for_elements<float>(piece, of_this);
  }
}

}  // namespace

SyntheticState::SyntheticState(const RunConfig& config, const Plan& plan, int rank) {
  const auto shard_size = static_cast<std::size_t>(plan.schedule.shard_size);
  const auto shard = static_cast<std::size_t>(rank) % shard_size;
  const auto replica = static_cast<std::size_t>(rank) / shard_size;
  const std::size_t element = size_of(config.precision.master);
  std::vector<std::string> groups = {"model"};
  for (const std::string& name : state_names(config.optimizer)) groups.push_back("optimizer/" + name);

  std::vector<std::size_t> places;  // of the pieces, in bytes
  std::size_t end = 0;
  for (const std::string& group : groups)
    for (std::size_t u = 0; u < plan.layouts.size(); ++u) {
      const auto& parameters = plan.units.parameters[u];
      const auto segments = make_segments(parameters, plan.layouts[u], shard);
      for (const Segment& segment :
           part_of_replica(segments, plan.layouts[u], replica, plan.schedule.replicas)) {
        contents_.pieces.push_back(
            {contents_.tensors.size() + segment.parameter, segment.begin, segment.end, nullptr});
        places.push_back(end);
        end += segment.size() * element;
      }
      for (const Parameter& parameter : parameters)
        contents_.tensors.push_back({group, parameter.name, parameter.shape, config.precision.master, 0});
    }
  memory_.resize(end);
  for (std::size_t i = 0; i < places.size(); ++i) contents_.pieces[i].data = memory_.data() + places[i];
}

void SyntheticState::fill(const Communicator& world) {
  std::vector<std::uint64_t> sums(contents_.tensors.size(), 0);
  for_elements(contents_, [&](const auto& piece, auto& value, auto expected, std::size_t i) {
    value = expected;
    sums[piece.tensor] += fingerprint_term(i, expected);
  });
  world.host_all_reduce(sums.data(), sums.size());
  for (std::size_t t = 0; t < sums.size(); ++t) contents_.tensors[t].fingerprint = sums[t];
}

std::size_t SyntheticState::wrong_elements() const {
  std::size_t wrong = 0;
  for_elements(contents_,
               [&](const auto&, auto& value, auto expected, std::size_t) { wrong += value != expected; });
  return wrong;
}

void SyntheticState::clear() {
  std::fill(memory_.begin(), memory_.end(), std::byte{0xff});  // NaN
}

}  // namespace shardmark
