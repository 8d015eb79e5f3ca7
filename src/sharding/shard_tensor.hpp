// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "core/instances.hpp"
#include "core/types.hpp"
#include "sharding/slot_pool.hpp"
#include "sharding/strategy.hpp"

namespace shardmark {

/// [Note: Offload] A tensor as long as a shard either stays in device memory or has its home in pinned host
/// memory and visits the device: fetch() starts the way there, bring() gives the device's copy, take_home()
/// ends the visit with what the device changed, dismiss() without. Visitors have staging slots, those of two
/// units at a time: while one is at work the next one arrives and the one before goes home. All copies are on
/// an instance of their own, beside compute, and only events tie the two: a copy begins after what was
/// launched on `exec` before, and bring() makes `exec` wait for it. Who touches home() on the host fences
/// that instance first. On host builds the two memories are two pools of the same kind, and every byte is
/// moved all the same.

/// What offloading moved.
struct Transfers {
  std::uint64_t to_device = 0;  ///< bytes
  std::uint64_t to_host = 0;
  double seconds = 0;  ///< on devices, those of starting the copies
};

/// What the offloaded tensors of a run share.
template <class M>
struct OffloadArea {
  Exec copies;  ///< the instance of all copies
  SlotPool<M> staging;
  Transfers transfers = {};
  Event ready = {};  ///< of what a copy is to begin after
};

/// Slots for the optimizer state of two units, and for their masters where they are offloaded.
inline std::size_t staging_slots(Offload offload, std::size_t states) {
  if (offload == Offload::none) return 0;
  return 2 * (states + (offload == Offload::all ? 1 : 0));
}

template <class M>
class ShardTensor {
 public:
  /// A View of memory that somebody else owns.
  explicit ShardTensor(const Vector<M>& device) : device_(device) {}
  /// n zeros in device memory.
  ShardTensor(const std::string& label, std::size_t n) : owner_(make_zeros<MemorySpace>(label, n)) {
    device_ = Vector<M>(static_cast<M*>(owner_.get()), n);
  }
  /// n zeros in host memory.
  ShardTensor(const std::string& label, std::size_t n, std::shared_ptr<OffloadArea<M>> area)
      : owner_(make_zeros<PinnedSpace>(label, n)), area_(std::move(area)) {
    home_ = HostVector<M>(static_cast<M*>(owner_.get()), n);
  }

  bool offloaded() const { return area_ != nullptr; }
  std::size_t size() const { return offloaded() ? home_.extent(0) : device_.extent(0); }

  /// Starts a visit; bring() does too where it was not started.
  void fetch(const Exec& exec) {
    if (!offloaded() || visits_) return;
    visits_ = true;
    device_ = area_->staging.acquire(size());
    move(exec, device_, home_, area_->transfers.to_device);
    arrived_.record(area_->copies);
  }
  /// The tensor in device memory for what is launched on `exec`, valid until take_home() or dismiss().
  Vector<M> bring(const Exec& exec) {
    fetch(exec);
    arrived_.hold(exec);
    return device_;
  }
  void take_home(const Exec& exec) {
    if (!offloaded()) return;
    move(exec, home_, device_, area_->transfers.to_host);
    dismiss();
  }
  void dismiss() {
    if (!offloaded()) return;
    area_->staging.release(device_);
    visits_ = false;
  }

  /// The instance that copy_to() and fetch() are in the order of: that of copies, or `exec` where there are
  /// none.
  const Exec& arrives_on(const Exec& exec) const { return offloaded() ? area_->copies : exec; }
  /// Copies the tensor to device memory elsewhere, without a visit.
  void copy_to(const Exec& exec, const Vector<M>& to) {
    if (offloaded())
      move(exec, to, home_, area_->transfers.to_device);
    else
      Kokkos::deep_copy(exec, to, device_);
  }

  /// Where the host may read and write the tensor: its home; else empty, for the caller to mirror device().
  const HostVector<M>& home() const { return home_; }
  /// The tensor where it is not offloaded, and where it visits.
  const Vector<M>& device() const { return device_; }

 private:
  template <class Space>
  static std::shared_ptr<void> make_zeros(const std::string& label, std::size_t n) {
    auto memory = std::make_shared<Kokkos::View<M*, Kokkos::LayoutRight, Space>>(label, n);
    return {memory, memory->data()};
  }
  template <class To, class From>
  void move(const Exec& exec, const To& to, const From& from, std::uint64_t& bytes) {
    const auto start = std::chrono::steady_clock::now();
    area_->ready.record(exec);
    area_->ready.hold(area_->copies);
    Kokkos::deep_copy(area_->copies, to, from);
    if (exec_is_host)
      fence(area_->copies, "shardmark::shard_tensor::move: the clock stops when the bytes have arrived");
    area_->transfers.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    bytes += size() * sizeof(M);
  }

  std::shared_ptr<void> owner_;
  std::shared_ptr<OffloadArea<M>> area_;
  Vector<M> device_;
  HostVector<M> home_;
  Event arrived_;
  bool visits_ = false;
};

}  // namespace shardmark
