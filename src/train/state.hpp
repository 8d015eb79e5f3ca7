// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format.hpp"
#include "train/trainer.hpp"

namespace shardmark {

/// The tensors of a trainer, model and optimizer state, as a checkpoint sees them: lists of tensors and of
/// host memory pieces. Saving and loading touch this rank's slices only.
template <class T, class G = Wide<T>>
class TrainerState {
 public:
  using M = Wide<T>;
  /// `keeps_snapshot`: there is host memory for a copy of all that this rank writes.
  TrainerState(Trainer<T, G>& trainer, const Mesh& mesh, bool keeps_snapshot = false);

  /// What this rank writes: of a slice that R replicas hold, the part that is its own; /state says how far
  /// the trainer is. Without a snapshot all may change with the next step, and fingerprints are those of the
  /// whole tensors. With one nothing changes until the next call, and fingerprints are left to whoever saves
  /// it. Collective.
  checkpoint::Contents contents_to_save(const Communicator& world);

  /// What this rank reads: its whole slices.
  checkpoint::Contents contents_to_load();

  /// After a load into contents_to_load(): checks fingerprints and brings the tensors to the device.
  /// Collective.
  void finish_load(const Communicator& world, const std::string& path, const checkpoint::Contents& loaded);

  /// Fingerprint of every tensor by dataset, "model/transformer.wte.weight" and so on. Collective.
  std::map<std::string, std::uint64_t> fingerprints(const Communicator& world);

 private:
  struct Memory {
    Vector<M> device;                     ///< empty where the tensor's home is host memory
    std::optional<HostMirror<M>> mirror;  ///< for the device's copies
    M* host;  ///< the mirror, which on host builds is the tensor itself, or the tensor's home
  };
  using Snapshot = Kokkos::View<M*, Kokkos::LayoutRight, Kokkos::HostSpace>;
  Memory memory_of(const ShardTensor<M>& tensor) const;
  /// Once, where the tensors are in a device's memory.
  void make_mirrors();
  void copy_to_host();
  void copy_to_device();
  checkpoint::Contents tensors() const;
  void move_to_snapshot(std::vector<checkpoint::Piece>& own);
  /// Pieces of every tensor; `own_part`: only the part of a slice that this replica writes.
  std::vector<checkpoint::Piece> pieces(bool own_part) const;

  Trainer<T, G>& trainer_;
  int replica_, replicas_;
  std::vector<std::string> groups_;          ///< "model", "optimizer/exp_avg", …
  std::vector<std::vector<Memory>> memory_;  ///< [group][unit]
  std::optional<Snapshot> snapshot_;         ///< of all that this rank writes
};

}  // namespace shardmark
