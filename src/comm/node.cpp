// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/node.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "comm/host_reduce.hpp"
#include "comm/mpi_call.hpp"

namespace shardmark {

namespace {

constexpr std::size_t bounce_bytes = 1 << 20;

/// Memory that is lent to collectives while it lives.
struct LentMemory {
  LentMemory(std::shared_ptr<MpiShared> comm_shared, const NodeLayout& layout, std::size_t bytes,
             const std::string& label, CommMemory kind)
      : shared(std::move(comm_shared)),
        window(MPI_Comm_c2f(layout.node.get()), layout.members, bytes, label, kind) {
    shared->windows->add(window);
  }
  ~LentMemory() { shared->windows->remove(window); }

  std::shared_ptr<MpiShared> shared;
  SharedWindow window;
};

NodeNotice notice_of(Collective kind, std::size_t n, Dtype dtype, int detail = 0) {
  NodeNotice notice;
  for (std::uint64_t part : {static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(n),
                             static_cast<std::uint64_t>(dtype), static_cast<std::uint64_t>(detail)})
    notice.signature = (notice.signature ^ part) * 0x9e3779b97f4a7c15u;
  return notice;
}

/// [begin, end) of n elements for a place; parts start on cache lines.
std::pair<std::size_t, std::size_t> part_of(std::size_t n, int place, int places) {
  const std::size_t part = ((n + places - 1) / places + 63) / 64 * 64;
  return {std::min(n, place * part), std::min(n, (place + 1) * part)};
}

template <class F>
void in_pieces(std::size_t n, std::size_t largest, F f) {
  for (std::size_t begin = 0; begin < n; begin += largest) f(begin, std::min(largest, n - begin));
}

}  // namespace

NodeCommunicator::NodeCommunicator(MPI_Comm comm, std::shared_ptr<MpiShared> shared, NodeLayout layout)
    : MpiCommunicator(comm, std::move(shared)),
      layout_(std::move(layout)),
      board_window_(MPI_Comm_c2f(layout_.node.get()), layout_.members, NodeBoard::bytes, ""),
      board_(board_window_, layout_.own_place, layout_.ranks),
      queue_(layout_.ranks) {
  SHARDMARK_MPI(MPI_Barrier(layout_.node.get()));  // the boards are made
}

std::shared_ptr<void> NodeCommunicator::allocate_bytes(std::size_t bytes, const std::string& label,
                                                       CommMemory kind) {
  if (kind == CommMemory::common && !has_common_memory())
    throw std::logic_error("communicator: a group over several nodes has no common memory");
  auto memory = std::make_shared<LentMemory>(shared(), layout_, bytes, label, kind);
  return {memory, memory->window.own()};
}

auto NodeCommunicator::area_of(void* data, std::size_t bytes, NodeNotice& notice) const
    -> std::optional<Area> {
  const auto address = shared()->windows->find(data, bytes, layout_.members);
  notice.signature += address ? 1 : 0;
  if (!address) return {};
  notice.buffer = *address;
  return Area{static_cast<char*>(data), [this](int place) {
                return shared()->windows->locate(board_.notice(place).buffer, layout_.members[place]);
              }};
}

auto NodeCommunicator::bounce() -> Bounce {
  // At least some elements a rank.
  const std::size_t bytes = std::max<std::size_t>(bounce_bytes, 512 * static_cast<std::size_t>(size()));
  if (!bounce_window_)
    bounce_window_.emplace(MPI_Comm_c2f(layout_.node.get()), layout_.members, bytes,
                           "shardmark::node::bounce");
  return {{bounce_window_->own(), [this](int place) { return bounce_window_->part(place); }}, bytes};
}

Pending NodeCommunicator::start(const NodeNotice& notice, Steps steps) {
  NodeSteps all(board_, notice, std::move(steps));
  if (!shared()->worker) return queue_.start(std::move(all));
  return Pending(shared()->worker->start([all = std::move(all)]() mutable { all.finish_aside(); }));
}

void NodeCommunicator::add_all_gather(Steps& steps, const Area& whole, std::size_t slice, Dtype dtype) const {
  const std::size_t bytes = slice * size_of(dtype);
  steps.push_back([=, this](auto& requests) {
    if (layout_.nodes == 1) return;
    std::vector<int> ones(layout_.nodes, 1), places;
    for (int node = 0; node < layout_.nodes; ++node)
      places.push_back(layout_.rank_at(node, layout_.own_place));
    in_chunks(slice, [&](std::size_t begin, int count) {
      const auto strided = strided_chunk(count, slice, dtype);
      SHARDMARK_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, at(whole.own, begin, dtype),
                                    ones.data(), places.data(), strided.get(), layout_.peers.get(),
                                    &requests.emplace_back()));
    });
  });
  steps.push_back([=, this](auto&) {
    for (int i = 1; i < layout_.ranks; ++i) {
      const int place = (layout_.own_place + i) % layout_.ranks;  // not all from the same one at a time
      const char* from = whole.of(place);
      if (from == whole.own) continue;  // common memory
      for (int node = 0; node < layout_.nodes; ++node) {
        const std::size_t offset = layout_.rank_at(node, place) * bytes;
        std::memcpy(whole.own + offset, from + offset, bytes);
      }
    }
  });
}

void NodeCommunicator::add_reduce_scatter(Steps& steps, const Area& whole, char* out, std::size_t slice,
                                          Dtype dtype) const {
  const std::size_t bytes = slice * size_of(dtype);
  const auto slice_of = [=, this](int node) {
    return whole.own + layout_.rank_at(node, layout_.own_place) * bytes;
  };
  steps.push_back([](auto&) {});
  // The own slice, or those of all peers, which nobody else reads.
  steps.push_back([=, this](auto&) {
    std::vector<const char*> buffers;
    for (int place = 0; place < layout_.ranks; ++place) buffers.push_back(whole.of(place));
    for (int node = 0; node < layout_.nodes; ++node) {
      const std::size_t offset = layout_.rank_at(node, layout_.own_place) * bytes;
      std::vector<const void*> parts;
      for (const char* buffer : buffers) parts.push_back(buffer + offset);
      reduce_on_host(parts, layout_.nodes == 1 ? out : slice_of(node), slice, dtype, Reduction::sum);
    }
  });
  if (layout_.nodes == 1) return;
  // What the other nodes send goes to slices of other places, which have been read.
  const auto received_from = [=, this](int node) {
    if (node == layout_.own_node) return slice_of(node);
    const int index = node < layout_.own_node ? node : node - 1, others = layout_.ranks - 1;
    const int place = index % others;
    return whole.own + layout_.rank_at(index / others, place < layout_.own_place ? place : place + 1) * bytes;
  };
  steps.push_back([=, this](auto& requests) {
    for (int node = 0; node < layout_.nodes; ++node) {
      if (node == layout_.own_node) continue;
      in_chunks(slice, [&](std::size_t begin, int count) {
        SHARDMARK_MPI(MPI_Irecv(at(received_from(node), begin, dtype), count, mpi_type(dtype), node, 0,
                                layout_.peers.get(), &requests.emplace_back()));
        SHARDMARK_MPI(MPI_Isend(at(slice_of(node), begin, dtype), count, mpi_type(dtype), node, 0,
                                layout_.peers.get(), &requests.emplace_back()));
      });
    }
  });
  steps.push_back([=, this](auto&) {
    std::vector<const void*> parts;
    for (int node = 0; node < layout_.nodes; ++node) parts.push_back(received_from(node));
    reduce_on_host(parts, out, slice, dtype, Reduction::sum);
  });
}

void NodeCommunicator::add_all_reduce(Steps& steps, const Area& data, std::size_t n, Dtype dtype,
                                      Reduction op) const {
  const auto [begin, end] = part_of(n, layout_.own_place, layout_.ranks);
  char* own_part = at(data.own, begin, dtype);
  const std::size_t count = end - begin;
  steps.push_back([](auto&) {});
  steps.push_back([=, this, offset = begin * size_of(dtype)](auto& requests) {
    std::vector<const void*> parts;
    for (int place = 0; place < layout_.ranks; ++place) parts.push_back(data.of(place) + offset);
    reduce_on_host(parts, own_part, count, dtype, op);
    if (layout_.nodes == 1) return;
    in_chunks(count, [&](std::size_t first, int chunk) {
      SHARDMARK_MPI(MPI_Iallreduce(MPI_IN_PLACE, at(own_part, first, dtype), chunk, mpi_type(dtype),
                                   op_of(dtype, op), layout_.peers.get(), &requests.emplace_back()));
    });
  });
  steps.push_back([=, this](auto&) {
    for (int i = 1; i < layout_.ranks; ++i) {
      const int place = (layout_.own_place + i) % layout_.ranks;
      const auto [first, last] = part_of(n, place, layout_.ranks);
      std::memcpy(at(data.own, first, dtype), at(data.of(place), first, dtype),
                  (last - first) * size_of(dtype));
    }
  });
}

void NodeCommunicator::add_broadcast(Steps& steps, const Area& data, std::size_t bytes, int root) const {
  const int place = layout_.place_of[root];
  steps.push_back([=, this](auto& requests) {
    if (layout_.nodes == 1 || place != layout_.own_place) return;
    in_chunks(bytes, [&](std::size_t begin, int count) {
      SHARDMARK_MPI(MPI_Ibcast(data.own + begin, count, MPI_BYTE, layout_.node_of[root], layout_.peers.get(),
                               &requests.emplace_back()));
    });
  });
  steps.push_back([=, this](auto&) {
    if (place != layout_.own_place) std::memcpy(data.own, data.of(place), bytes);
  });
}

Pending NodeCommunicator::all_gather(const Exec&, void* whole, std::size_t slice, Dtype dtype) {
  if (slice == 0) return {};
  NodeNotice notice = notice_of(Collective::all_gather, slice, dtype);
  Steps steps;
  const std::size_t element = size_of(dtype);
  if (const auto area = area_of(whole, slice * size() * element, notice)) {
    add_all_gather(steps, *area, slice, dtype);
    return start(notice, std::move(steps));
  }
  const Bounce pieces = bounce();
  in_pieces(slice, pieces.bytes / element / size(), [&](std::size_t begin, std::size_t n) {
    char* inside = pieces.area.own;
    steps.push_back([=, this](auto&) {
      std::memcpy(at(inside, rank() * n, dtype), at(whole, rank() * slice + begin, dtype), n * element);
    });
    add_all_gather(steps, pieces.area, n, dtype);
    steps.push_back([=, this](auto&) {
      for (int r = 0; r < size(); ++r)
        std::memcpy(at(whole, r * slice + begin, dtype), at(inside, r * n, dtype), n * element);
    });
  });
  return start(notice, std::move(steps));
}

Pending NodeCommunicator::reduce_scatter(const Exec&, void* whole, void* out, std::size_t slice,
                                         Dtype dtype) {
  if (slice == 0) return {};
  NodeNotice notice = notice_of(Collective::reduce_scatter, slice, dtype);
  Steps steps;
  const std::size_t element = size_of(dtype);
  if (const auto area = area_of(whole, slice * size() * element, notice)) {
    add_reduce_scatter(steps, *area, static_cast<char*>(out), slice, dtype);
    return start(notice, std::move(steps));
  }
  const Bounce pieces = bounce();
  in_pieces(slice, pieces.bytes / element / size(), [&](std::size_t begin, std::size_t n) {
    char* inside = pieces.area.own;
    steps.push_back([=, this](auto&) {
      for (int r = 0; r < size(); ++r)
        std::memcpy(at(inside, r * n, dtype), at(whole, r * slice + begin, dtype), n * element);
    });
    add_reduce_scatter(steps, pieces.area, at(out, begin, dtype), n, dtype);
  });
  return start(notice, std::move(steps));
}

Pending NodeCommunicator::all_reduce(const Exec&, void* data, std::size_t n, Dtype dtype, Reduction op) {
  op_of(dtype, op);  // throws where the pair is not offered
  if (n == 0) return {};
  NodeNotice notice = notice_of(Collective::all_reduce, n, dtype, static_cast<int>(op));
  Steps steps;
  const std::size_t element = size_of(dtype);
  if (const auto area = area_of(data, n * element, notice)) {
    add_all_reduce(steps, *area, n, dtype, op);
    return start(notice, std::move(steps));
  }
  const Bounce pieces = bounce();
  in_pieces(n, pieces.bytes / element, [&](std::size_t begin, std::size_t count) {
    char *inside = pieces.area.own, *outside = at(data, begin, dtype);
    steps.push_back([=](auto&) { std::memcpy(inside, outside, count * element); });
    add_all_reduce(steps, pieces.area, count, dtype, op);
    steps.push_back([=](auto&) { std::memcpy(outside, inside, count * element); });
  });
  return start(notice, std::move(steps));
}

Pending NodeCommunicator::broadcast(const Exec&, void* data, std::size_t n, Dtype dtype, int root) {
  if (root < 0 || root >= size())
    throw EnvironmentError("broadcast: rank " + std::to_string(root) + " is not of this group");
  if (n == 0) return {};
  NodeNotice notice = notice_of(Collective::broadcast, n, dtype, root);
  Steps steps;
  const std::size_t bytes = n * size_of(dtype);
  if (const auto area = area_of(data, bytes, notice)) {
    add_broadcast(steps, *area, bytes, root);
    return start(notice, std::move(steps));
  }
  const Bounce pieces = bounce();
  in_pieces(bytes, pieces.bytes, [&](std::size_t begin, std::size_t count) {
    char *inside = pieces.area.own, *outside = static_cast<char*>(data) + begin;
    steps.push_back([=, this](auto&) {
      if (rank() == root) std::memcpy(inside, outside, count);
    });
    add_broadcast(steps, pieces.area, count, root);
    steps.push_back([=](auto&) { std::memcpy(outside, inside, count); });
  });
  return start(notice, std::move(steps));
}

}  // namespace shardmark
