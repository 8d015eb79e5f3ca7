// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/state.hpp"

#include <cstring>

namespace shardmark {

template <class T, class G>
TrainerState<T, G>::TrainerState(Trainer<T, G>& trainer, const Mesh& mesh, bool keeps_snapshot)
    : trainer_(trainer), replica_(mesh.replica), replicas_(mesh.replicas), groups_{"model"} {
  if (keeps_snapshot)
    snapshot_.emplace(Kokkos::view_alloc("shardmark::state::snapshot", Kokkos::WithoutInitializing),
                      snapshot_elements(trainer.config(), trainer.plan()));
  memory_.emplace_back();
  for (auto& unit : trainer.units()) memory_.back().push_back(memory_of(unit.masters()));
  for (const auto& state : trainer.optimizer_state()) {
    memory_.emplace_back();
    for (const auto& tensor : state) memory_.back().push_back(memory_of(tensor));
  }
  for (const std::string& name : trainer.optimizer_state_names()) groups_.push_back("optimizer/" + name);
}

template <class T, class G>
typename TrainerState<T, G>::Memory TrainerState<T, G>::memory_of(const ShardTensor<M>& tensor) const {
  if (tensor.offloaded()) return {{}, {}, tensor.home().data()};
  if constexpr (exec_is_host) {
    return {tensor.device(), {}, tensor.device().data()};
  } else {
    return {tensor.device(), {}, nullptr};
  }
}

template <class T, class G>
void TrainerState<T, G>::make_mirrors() {
  for (auto& group : memory_) {
    for (auto& memory : group) {
      if (memory.host != nullptr || memory.device.extent(0) == 0) continue;
      memory.mirror.emplace("shardmark::state::mirror", memory.device.extent(0));
      memory.host = memory.mirror->data();
    }
  }
}

template <class T, class G>
void TrainerState<T, G>::copy_to_host() {
  make_mirrors();
  for (auto& group : memory_)
    for (auto& memory : group)
      if (memory.mirror) Kokkos::deep_copy(trainer_.exec(), *memory.mirror, memory.device);
  trainer_.settle("shardmark::state::copy_to_host: the host reads the copies");
}

template <class T, class G>
void TrainerState<T, G>::copy_to_device() {
  for (auto& group : memory_)
    for (auto& memory : group)
      if (memory.mirror) Kokkos::deep_copy(trainer_.exec(), memory.device, *memory.mirror);
  fence(trainer_.exec(), "shardmark::state::copy_to_device: the host copies may go");
}

template <class T, class G>
checkpoint::Contents TrainerState<T, G>::tensors() const {
  checkpoint::Contents contents;
  for (const std::string& group : groups_)
    for (const auto& unit : trainer_.units())
      for (const Parameter& parameter : unit.specs())
        contents.tensors.push_back({group, parameter.name, parameter.shape, dtype_of<M>, 0});
  return contents;
}

template <class T, class G>
std::vector<checkpoint::Piece> TrainerState<T, G>::pieces(bool own_part) const {
  std::vector<checkpoint::Piece> pieces;
  std::size_t first_tensor = 0;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    for (std::size_t u = 0; u < trainer_.units().size(); ++u) {
      const auto& unit = trainer_.units()[u];
      const auto segments =
          own_part ? part_of_replica(unit.segments(), unit.layout(), replica_, replicas_) : unit.segments();
      for (const Segment& segment : segments)
        pieces.push_back({first_tensor + segment.parameter, segment.begin, segment.end,
                          memory_[group][u].host + segment.offset});
      first_tensor += unit.specs().size();
    }
  }
  return pieces;
}

template <class T, class G>
checkpoint::Contents TrainerState<T, G>::contents_to_save(const Communicator& world) {
  copy_to_host();
  checkpoint::Contents contents = tensors();
  contents.pieces = pieces(true);
  if (snapshot_)
    move_to_snapshot(contents.pieces);
  else
    checkpoint::add_fingerprints(world, contents);
  const Position& position = trainer_.position();
  contents.state = {{"step", position.steps},
                    {"optimizer_steps", position.steps - position.skipped_steps},
                    {"skipped_steps", position.skipped_steps},
                    {"samples_seen", position.samples_seen},
                    {"data_cursor", position.samples_seen},
                    {"loss_scale", trainer_.loss_scale().factor()},
                    {"loss_scale_steps", trainer_.loss_scale().calm_steps()}};
  return contents;
}

// Mirrors are copies already.
template <class T, class G>
void TrainerState<T, G>::move_to_snapshot(std::vector<checkpoint::Piece>& own) {
  const std::size_t tensors_of_a_group = tensors().tensors.size() / groups_.size();
  M* free = snapshot_->data();
  for (auto& piece : own) {
    if (memory_[piece.tensor / tensors_of_a_group].front().mirror) continue;
    const std::size_t n = piece.end - piece.begin;
    std::memcpy(free, piece.data, n * sizeof(M));
    piece.data = free;
    free += n;
  }
}

template <class T, class G>
checkpoint::Contents TrainerState<T, G>::contents_to_load() {
  trainer_.settle("shardmark::state::contents_to_load: nothing else is on its way to where the host writes");
  make_mirrors();
  for (auto& unit : trainer_.units()) unit.masters();  // are about to change
  checkpoint::Contents contents = tensors();
  contents.pieces = pieces(false);
  return contents;
}

template <class T, class G>
void TrainerState<T, G>::finish_load(const Communicator& world, const std::string& path,
                                     const checkpoint::Contents& loaded) {
  checkpoint::Contents once = loaded;
  once.pieces = pieces(true);
  checkpoint::verify_fingerprints(world, path, once);
  copy_to_device();
}

template <class T, class G>
std::map<std::string, std::uint64_t> TrainerState<T, G>::fingerprints(const Communicator& world) {
  copy_to_host();
  checkpoint::Contents contents = tensors();
  contents.pieces = pieces(true);
  checkpoint::add_fingerprints(world, contents);
  std::map<std::string, std::uint64_t> by_dataset;
  for (const auto& tensor : contents.tensors)
    by_dataset[tensor.group + "/" + tensor.name] = tensor.fingerprint;
  return by_dataset;
}

#define SHARDMARK_INSTANTIATE(T, G) template class TrainerState<T, G>;
SHARDMARK_FOR_PRECISIONS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
