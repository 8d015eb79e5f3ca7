// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/state.hpp"

#include "core/fingerprint.hpp"

namespace shardmark {

template <class T>
TrainerState<T>::TrainerState(Trainer<T>& trainer, const Mesh& mesh)
    : trainer_(trainer), replica_(mesh.replica), replicas_(mesh.replicas), groups_{"model"} {
  const auto add = [&](auto view_of) {
    auto& units = memory_.emplace_back();
    for (std::size_t u = 0; u < trainer.units().size(); ++u) {
      const Vector<T> device = view_of(u);
      units.push_back({device, Kokkos::create_mirror_view(Kokkos::HostSpace(), device)});
    }
  };
  add([&](std::size_t u) { return trainer.units()[u].parameter_shard(); });
  const auto names = trainer.optimizer().state_names();
  for (std::size_t s = 0; s < names.size(); ++s) {
    groups_.push_back("optimizer/" + names[s]);
    add([&](std::size_t u) { return trainer.optimizer().state(s, u); });
  }
}

template <class T>
checkpoint::Contents TrainerState<T>::tensors() const {
  checkpoint::Contents contents;
  for (const std::string& group : groups_)
    for (const auto& unit : trainer_.units())
      for (const Parameter& parameter : unit.specs())
        contents.tensors.push_back({group, parameter.name, parameter.shape, dtype_of<T>, 0});
  return contents;
}

template <class T>
std::vector<checkpoint::Piece> TrainerState<T>::pieces(bool own_part) const {
  std::vector<checkpoint::Piece> pieces;
  std::size_t first_tensor = 0;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    for (std::size_t u = 0; u < trainer_.units().size(); ++u) {
      const auto& unit = trainer_.units()[u];
      for (const Segment& segment : unit.segments()) {
        const std::size_t n = segment.size();
        const std::size_t begin = own_part ? n * replica_ / replicas_ : 0;
        const std::size_t end = own_part ? n * (replica_ + 1) / replicas_ : n;
        if (begin == end) continue;
        pieces.push_back({first_tensor + segment.parameter, segment.begin + begin, segment.begin + end,
                          memory_[group][u].host.data() + segment.offset + begin});
      }
      first_tensor += unit.specs().size();
    }
  }
  return pieces;
}

template <class T>
std::vector<std::uint64_t> TrainerState<T>::sum_fingerprints(
    const Communicator& world, const std::vector<checkpoint::Piece>& own) const {
  std::vector<std::uint64_t> sums(tensors().tensors.size(), 0);
  for (const auto& piece : own) {
    const T* data = static_cast<const T*>(piece.data);
    for (std::size_t i = piece.begin; i < piece.end; ++i)
      sums[piece.tensor] += fingerprint_term(i, data[i - piece.begin]);
  }
  world.host_all_reduce(sums.data(), sums.size());
  return sums;
}

template <class T>
checkpoint::Contents TrainerState<T>::contents_to_save(const Communicator& world) {
  for (auto& group : memory_)
    for (auto& memory : group) Kokkos::deep_copy(trainer_.exec(), memory.host, memory.device);
  fence(trainer_.exec(), "shardmark::state::contents_to_save: the host reads the copies");
  checkpoint::Contents contents = tensors();
  contents.pieces = pieces(true);
  const auto sums = sum_fingerprints(world, contents.pieces);
  for (std::size_t i = 0; i < sums.size(); ++i) contents.tensors[i].fingerprint = sums[i];
  return contents;
}

template <class T>
checkpoint::Contents TrainerState<T>::contents_to_load() {
  checkpoint::Contents contents = tensors();
  contents.pieces = pieces(false);
  return contents;
}

template <class T>
void TrainerState<T>::finish_load(const Communicator& world, const std::string& path,
                                  const checkpoint::Contents& loaded) {
  checkpoint::Contents once = loaded;
  once.pieces = pieces(true);
  checkpoint::verify_fingerprints(world, path, once);
  for (auto& group : memory_)
    for (auto& memory : group) Kokkos::deep_copy(trainer_.exec(), memory.device, memory.host);
  fence(trainer_.exec(), "shardmark::state::finish_load: the host copies may go");
}

template <class T>
std::map<std::string, std::uint64_t> TrainerState<T>::fingerprints(const Communicator& world) {
  const checkpoint::Contents contents = contents_to_save(world);
  std::map<std::string, std::uint64_t> by_dataset;
  for (const auto& tensor : contents.tensors)
    by_dataset[tensor.group + "/" + tensor.name] = tensor.fingerprint;
  return by_dataset;
}

template class TrainerState<float>;
template class TrainerState<double>;

}  // namespace shardmark
