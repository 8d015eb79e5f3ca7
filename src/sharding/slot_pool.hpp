// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace shardmark {

/// Buffers that units take in turn, allocated once and collectively. Knows how many bytes are in use, and
/// their peak.
template <class T>
class SlotPool {
 public:
  /// One slot for each capacity (elements).
  SlotPool(Communicator& comm, const std::vector<std::size_t>& capacities, const std::string& label) {
    for (std::size_t capacity : capacities) slots_.push_back({comm.allocate<T>(capacity, label), false});
  }

  /// The smallest free slot that holds n elements. The schedule makes sure that there is one.
  Vector<T> acquire(std::size_t n) {
    Slot* best = nullptr;
    for (Slot& slot : slots_)
      if (!slot.used && slot.buffer.view.extent(0) >= n &&
          (best == nullptr || slot.buffer.view.extent(0) < best->buffer.view.extent(0)))
        best = &slot;
    if (best == nullptr) throw std::logic_error("slot pool: no free slot; the schedule holds too many units");
    best->used = true;
    bytes_in_use_ += best->buffer.view.extent(0) * sizeof(T);
    peak_bytes_ = std::max(peak_bytes_, bytes_in_use_);
    return Vector<T>(best->buffer.view.data(), n);
  }

  void release(const Vector<T>& view) {
    for (Slot& slot : slots_) {
      if (slot.buffer.view.data() != view.data() || !slot.used) continue;
      slot.used = false;
      bytes_in_use_ -= slot.buffer.view.extent(0) * sizeof(T);
      return;
    }
    throw std::logic_error("slot pool: released a slot that is not in use");
  }

  std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  struct Slot {
    CommBuffer<T> buffer;
    bool used;
  };
  std::vector<Slot> slots_;
  std::size_t bytes_in_use_ = 0;
  std::size_t peak_bytes_ = 0;
};

}  // namespace shardmark
