// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_window.hpp"

#include <mpi.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <limits>

#include "comm/mpi_call.hpp"
#include "core/handle.hpp"
#include "core/runtime.hpp"

namespace shardmark {

namespace {

struct MpiWinTraits {
  using type = MPI_Win;
  static type empty() { return MPI_WIN_NULL; }
  static void close(type window) { MPI_Win_free(&window); }
};
struct MpiInfoTraits {
  using type = MPI_Info;
  static type empty() { return MPI_INFO_NULL; }
  static void close(type info) { MPI_Info_free(&info); }
};

std::size_t page_size() {
  static const std::size_t page = sysconf(_SC_PAGESIZE);
  return page;
}
std::size_t whole_pages(std::size_t bytes) {  // at least one
  return std::max(page_size(), (bytes + page_size() - 1) / page_size() * page_size());
}
/// MPI may begin parts anywhere; every process maps them at the same place of a page.
char* next_page(char* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return data + (whole_pages(address) - address);
}

/// Takes the pages of these bytes now: where shared memory is short this says so, and a first touch would be
/// a SIGBUS. True also where the kernel (before Linux 5.14) can't.
bool populate(char* data, std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  constexpr int populate_write = MADV_POPULATE_WRITE;
#else
  constexpr int populate_write = 23;
#endif
  const std::size_t into_page = reinterpret_cast<std::uintptr_t>(data) % page_size();
  return madvise(data - into_page, whole_pages(into_page + bytes), populate_write) == 0 || errno == EINVAL;
}

/// Bytes free where MPI keeps windows; where the memory can't be had, Open MPI's own calls may never return.
std::uint64_t free_shared_memory() {
  const char* folder = std::getenv("OMPI_MCA_osc_sm_backing_directory");
  struct statvfs space = {};
  if (statvfs(folder == nullptr ? "/dev/shm" : folder, &space) != 0)
    return std::numeric_limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
}

/// Whether all members of the node say so. Collective.
bool all_say(MPI_Comm node, bool yes) {
  int all = yes ? 1 : 0;
  SHARDMARK_MPI(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, node));
  return all == 1;
}

// Ids are unique on a node: the first member's world rank, and its count of windows, from 1 on.
std::uint64_t new_id(MPI_Comm node, int first_member) {
  static std::uint64_t windows = 0;
  std::uint64_t id = (static_cast<std::uint64_t>(first_member) << 32) + ++windows;
  SHARDMARK_MPI(MPI_Bcast(&id, 1, MPI_UINT64_T, 0, node));
  return id;
}

Kokkos::Tools::SpaceHandle host_space() {
  return Kokkos::Tools::make_space_handle(Kokkos::HostSpace::name());
}

}  // namespace

struct SharedWindow::Implementation {
  Handle<MpiWinTraits> window;
};

SharedWindow::SharedWindow(int node, std::vector<int> members, std::size_t bytes, const std::string& label,
                           CommMemory kind)
    : window_(std::make_unique<Implementation>()),
      bytes_(bytes),
      kind_(kind),
      label_(label),
      members_(std::move(members)) {
  const MPI_Comm comm = MPI_Comm_f2c(node);
  MPI_Info raw_info;
  SHARDMARK_MPI(MPI_Info_create(&raw_info));
  const Handle<MpiInfoTraits> info(raw_info);
  int place = 0;
  SHARDMARK_MPI(MPI_Comm_rank(comm, &place));
  place_ = static_cast<std::size_t>(place);
  // Each part may then lie near its owner.
  SHARDMARK_MPI(MPI_Info_set(info.get(), "alloc_shared_noncontig", "true"));
  id_ = new_id(comm, members_.front());
  const std::size_t pages = whole_pages(bytes), parts = kind == CommMemory::common ? 1 : members_.size();
  const auto require = [&](bool fits) {
    if (all_say(comm, fits)) return;
    window_->window.release();  // some rank may have none to give back
    int ranks = 0;
    SHARDMARK_MPI(MPI_Comm_size(MPI_Comm_f2c(Runtime::mpi_world()), &ranks));
    const bool everywhere = static_cast<std::size_t>(ranks) == members_.size();
    throw Error(ExitCode::environment,
                "shared memory of this node is short: no room for " + std::to_string(parts * pages) +
                    " bytes more (" + label + "): enlarge /dev/shm, or use comm.backend = \"mpi\"",
                everywhere);
  };
  // Open MPI wants some more than it is asked for, and hangs where it gets less.
  const std::uint64_t wanted = parts * (pages + page_size());
  require(free_shared_memory() >= wanted + wanted / 8 + (std::uint64_t{1} << 20));
  MPI_Win window = MPI_WIN_NULL;
  const std::size_t brought = place_ < parts ? pages + page_size() : 0;
  bool fits = MPI_Win_allocate_shared(static_cast<MPI_Aint>(brought), 1, info.get(), comm, &own_, &window) ==
              MPI_SUCCESS;
  if (fits) window_->window = Handle<MpiWinTraits>(window);
  require(fits);
  for (std::size_t member = 0; member < members_.size(); ++member) {
    MPI_Aint size = 0;
    int unit = 0;
    char* part = nullptr;
    const std::size_t owner = std::min(member, parts - 1);
    SHARDMARK_MPI(MPI_Win_shared_query(window, static_cast<int>(owner), &size, &unit, &part));
    parts_.push_back(next_page(part));
  }
  own_ = parts_[place_];
  require(populate(touched().data, touched().bytes));
  if (!label_.empty()) Kokkos::Tools::allocateData(host_space(), label_, touched().data, touched().bytes);
}

SharedWindow::Touched SharedWindow::touched() const {
  if (kind_ == CommMemory::own) return {own_, bytes_};
  const std::size_t slice = bytes_ / members_.size();
  return {own_ + place_ * slice, slice};
}

SharedWindow::~SharedWindow() {
  if (!label_.empty()) Kokkos::Tools::deallocateData(host_space(), label_, touched().data, touched().bytes);
  if (std::uncaught_exceptions() > 0) window_->window.release();
}

char* SharedWindow::part_of(int world_rank) const {
  const auto member = std::find(members_.begin(), members_.end(), world_rank);
  return member == members_.end() ? nullptr : parts_[member - members_.begin()];
}

void SharedWindows::add(const SharedWindow& window) {
  const std::lock_guard lock(mutex_);
  by_start_[window.own()] = &window;
  by_id_[window.id()] = &window;
}

void SharedWindows::remove(const SharedWindow& window) {
  const std::lock_guard lock(mutex_);
  by_start_.erase(window.own());
  by_id_.erase(window.id());
}

std::optional<SharedAddress> SharedWindows::find(const void* data, std::size_t bytes,
                                                 const std::vector<int>& world_ranks) const {
  const auto* start = static_cast<const char*>(data);
  const std::lock_guard lock(mutex_);
  const auto after = by_start_.upper_bound(start);
  if (after == by_start_.begin()) return {};
  const SharedWindow& window = *std::prev(after)->second;
  if (start + bytes > window.own() + window.bytes()) return {};
  const auto is_member = [&](int rank) { return window.part_of(rank) != nullptr; };
  if (!std::all_of(world_ranks.begin(), world_ranks.end(), is_member)) return {};
  return SharedAddress{window.id(), static_cast<std::uint64_t>(start - window.own())};
}

char* SharedWindows::locate(const SharedAddress& address, int owner) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(address.window);
  char* part = found == by_id_.end() ? nullptr : found->second->part_of(owner);
  if (part == nullptr)
    throw EnvironmentError("collective: another rank brought memory that this rank does not share");
  return part + address.offset;
}

}  // namespace shardmark
