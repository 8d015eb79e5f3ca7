// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace shardmark {

/// Where in a shared window something lies, in words that every rank of the node understands.
struct SharedAddress {
  std::uint64_t window = 0;  ///< its id; 0: in none
  std::uint64_t offset = 0;  ///< bytes from the start of the owner's part
};

/// Memory of each rank of a node that all of them reach by plain loads and stores: MPI_Win_allocate_shared.
/// Parts start on pages, and are touched by their owner first. Common memory is one part for all, and of
/// its equal slices each is touched first by the rank whose place it has. Booked with Kokkos Tools under
/// the label, unless that is empty; of common memory each rank books its slice.
class SharedWindow {
 public:
  /// `bytes` for this rank's part, or of the common one. Collective over `node` (MPI_Comm_c2f), communicator
  /// of `members`, named by their world ranks. Throws EnvironmentError on all of them where memory is short.
  SharedWindow(int node, std::vector<int> members, std::size_t bytes, const std::string& label,
               CommMemory kind = CommMemory::own);
  /// Collective, except while an exception passes: then the memory stays until the process ends, since
  /// the other ranks may never come.
  ~SharedWindow();
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  std::uint64_t id() const { return id_; }
  std::size_t bytes() const { return bytes_; }
  char* own() const { return own_; }
  /// The start of the part of a member, by its place in `members`; common memory is everyone's part.
  char* part(std::size_t place) const { return parts_[place]; }
  /// By its world rank; null where it is no member.
  char* part_of(int world_rank) const;

 private:
  struct Implementation;
  /// What this rank touches first and books.
  struct Touched {
    char* data;
    std::size_t bytes;
  };
  Touched touched() const;

  std::unique_ptr<Implementation> window_;
  std::uint64_t id_ = 0;
  std::size_t bytes_;
  CommMemory kind_;
  std::size_t place_ = 0;
  std::string label_;
  std::vector<int> members_;
  std::vector<char*> parts_;
  char* own_ = nullptr;
};

/// The windows of a process that lend memory to collectives. Any thread may ask.
class SharedWindows {
 public:
  void add(const SharedWindow& window);
  void remove(const SharedWindow& window);

  /// The place of [data, data + bytes) in a window of which all `world_ranks` are members.
  std::optional<SharedAddress> find(const void* data, std::size_t bytes,
                                    const std::vector<int>& world_ranks) const;
  /// Where `address`, as world rank `owner` published it, lies in this process. Throws EnvironmentError for
  /// a window that there is not.
  char* locate(const SharedAddress& address, int owner) const;

 private:
  mutable std::mutex mutex_;
  std::map<const char*, const SharedWindow*> by_start_;
  std::map<std::uint64_t, const SharedWindow*> by_id_;
};

}  // namespace shardmark
