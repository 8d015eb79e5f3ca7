// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

namespace shardmark {

/// Where training runs. Functions that launch kernels take an instance of it first and never fence.
using Exec = Kokkos::DefaultExecutionSpace;
using MemorySpace = Exec::memory_space;
inline constexpr bool exec_is_host =
    std::is_same_v<MemorySpace, Kokkos::HostSpace>;  // kernels and host code see the same memory

/// Views that functions take: unmanaged, row-major, so that they cost nothing to pass and slice.
template <class T>
using Vector = Kokkos::View<T*, Kokkos::LayoutRight, MemorySpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
template <class T>
using Matrix = Kokkos::View<T**, Kokkos::LayoutRight, MemorySpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// Host memory that devices reach at full speed; on host builds just memory.
#if defined(KOKKOS_ENABLE_CUDA)
using PinnedSpace = Kokkos::CudaHostPinnedSpace;
#elif defined(KOKKOS_ENABLE_HIP)
using PinnedSpace = Kokkos::HIPHostPinnedSpace;
#else
using PinnedSpace = Kokkos::HostSpace;
#endif
template <class T>
using HostVector =
    Kokkos::View<T*, Kokkos::LayoutRight, PinnedSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// Memory with an owner; converts to the Views above.
template <class T>
using OwnedVector = Kokkos::View<T*, Kokkos::LayoutRight, MemorySpace>;

/// Host memory that devices copy to and from beside their work.
template <class T>
using HostMirror = Kokkos::View<T*, Kokkos::LayoutRight, PinnedSpace>;

/// Allocates n elements, not initialised. The label is "shardmark::<file>::<what>"; the ledger sorts by it.
template <class T>
OwnedVector<T> allocate(const std::string& label, std::size_t n) {
  return OwnedVector<T>(Kokkos::view_alloc(label, Kokkos::WithoutInitializing), n);
}

/// A mirror for copies of `vector`, not initialised; on host builds the vector itself.
template <class T>
HostMirror<T> mirror_of(const OwnedVector<T>& vector) {
  if constexpr (exec_is_host)
    return vector;
  else
    return HostMirror<T>(Kokkos::view_alloc(vector.label() + "_mirror", Kokkos::WithoutInitializing),
                         vector.extent(0));
}

/// Waits for all that was launched on `exec`. The reason is what profilers show, and what a reader needs.
inline void fence(const Exec& exec, const char* reason) {
#if KOKKOS_VERSION >= 30600
  exec.fence(reason);
#else
  (void)reason;
  exec.fence();
#endif
}

/// The rows [0, rows) x cols matrix that starts at the first element of `data`.
template <class T, class View>
Matrix<T> as_matrix(const View& data, std::size_t rows, std::size_t cols) {
  return Matrix<T>(data.data(), rows, cols);
}

/// Elements [begin, end) of a contiguous rank-1 View.
template <class T>
Vector<T> slice(const Vector<T>& data, std::size_t begin, std::size_t end) {
  return Vector<T>(data.data() + begin, end - begin);
}

}  // namespace shardmark
