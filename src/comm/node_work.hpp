// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <vector>

#include "comm/pending.hpp"
#include "comm/shared_window.hpp"

namespace shardmark {

/// What a rank of a node tells the others about the collective that it is in.
struct NodeNotice {
  SharedAddress buffer;         ///< where its data lies
  std::uint64_t signature = 0;  ///< of the call, to see that all make the same
};

/// The notice boards of the ranks of a node, in a shared window of their own. A rank's mark counts the steps
/// that it has done since the board was made; others see what it wrote before.
class NodeBoard {
 public:
  /// Collective over the window's members. The first bytes of each part are the board.
  NodeBoard(const SharedWindow& window, int own_place, int ranks);
  static constexpr std::size_t bytes = 64;

  /// One step more; the first of a collective comes with a notice.
  void post() { entry(own_place_).mark.store(++steps_, std::memory_order_release); }
  void post(const NodeNotice& notice);
  /// Everyone has done as many steps as this rank.
  bool all_posted() const;
  /// After the first step: throws EnvironmentError unless all have the same signature.
  void require_same_call() const;
  const NodeNotice& notice(int place) const { return entry(place).notice; }

 private:
  struct alignas(bytes) Entry {
    std::atomic<std::uint64_t> mark{0};
    NodeNotice notice;
  };
  static_assert(sizeof(Entry) == bytes && std::atomic<std::uint64_t>::is_always_lock_free);

  Entry& entry(int place) const { return *reinterpret_cast<Entry*>(window_.part(place)); }

  const SharedWindow& window_;
  int own_place_;
  int ranks_;
  std::uint64_t steps_ = 0;
};

/// A step of a collective: what this rank does once all ranks of the node have done the step before. It may
/// add MPI requests, which end with the step.
using NodeStep = std::function<void(std::vector<MPI_Request>&)>;

/// The steps of one collective of a node. They have all been done by all ranks of the node when it is done.
class NodeSteps {
 public:
  NodeSteps(NodeBoard& board, const NodeNotice& notice, std::vector<NodeStep> steps)
      : board_(board), notice_(notice), steps_(std::move(steps)) {}

  /// Does what can be done without waiting for anyone; true once all is done.
  bool advance();
  /// For a thread beside those that compute: waits in short sleeps.
  void finish_aside();

 private:
  NodeBoard& board_;
  NodeNotice notice_;
  std::vector<NodeStep> steps_;
  std::size_t next_ = 0;
  bool started_ = false;  ///< the next one, and its requests are under way
  std::vector<MPI_Request> requests_;
};

/// Collectives of one communicator that the main thread carries out itself, in the order of their starts:
/// whoever waits for one ends those before it. That cannot deadlock, since all ranks have started those too,
/// and come to this wait.
class NodeQueue {
 public:
  /// `ranks` on this node; where they outnumber its cores, waits leave the core to others at once.
  explicit NodeQueue(int ranks);
  Pending start(NodeSteps steps);

 private:
  class Work;
  /// Ends collectives as far as they come without waiting.
  void advance();
  bool crowded_;
  std::deque<Work*> works_;
  std::exception_ptr failure_;  ///< of one of them: the later ones throw it too, and nobody waits
};

}  // namespace shardmark
