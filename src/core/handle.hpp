// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace shardmark {

/// Owns a handle of a C library. `Traits` says what an empty one is and how to close one:
///   struct Traits { using type = …; static type empty(); static void close(type); };
template <class Traits>
class Handle {
 public:
  using type = typename Traits::type;

  Handle() = default;
  explicit Handle(type raw) : raw_(raw) {}
  Handle(Handle&& other) noexcept : raw_(other.release()) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      raw_ = other.release();
    }
    return *this;
  }
  ~Handle() { reset(); }

  type get() const { return raw_; }
  explicit operator bool() const { return raw_ != Traits::empty(); }

  /// Gives the handle away without closing it.
  type release() { return std::exchange(raw_, Traits::empty()); }
  void reset() {
    if (raw_ != Traits::empty()) Traits::close(release());
  }

 private:
  type raw_ = Traits::empty();
};

}  // namespace shardmark
