// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/transfer.hpp"

#include <algorithm>

#include "checkpoint/manifest.hpp"
#include "checkpoint/write_behind.hpp"
#include "core/fingerprint.hpp"

namespace shardmark::checkpoint {
namespace {

/// One call of H5Dwrite or H5Dread.
struct Call {
  std::size_t tensor;
  Box box;
  std::byte* data;
};

/// Calls f(begin, end, data) for parts of a piece of at most `bytes` bytes.
template <class F>
void for_parts(const Tensor& tensor, const Piece& piece, std::size_t bytes, F f) {
  const std::size_t element = size_of(tensor.dtype);
  const std::size_t most = std::max<std::size_t>(1, bytes / element);
  for (std::size_t begin = piece.begin; begin < piece.end; begin += most)
    f(begin, std::min(piece.end, begin + most),
      static_cast<std::byte*>(piece.data) + (begin - piece.begin) * element);
}

/// This rank's calls, sorted by tensor.
std::vector<Call> plan_calls(const Contents& contents, std::size_t largest_call) {
  std::vector<Call> calls;
  for (const Piece& piece : contents.pieces) {
    const Tensor& tensor = contents.tensors.at(piece.tensor);
    require_inside(tensor, piece);
    for_parts(tensor, piece, largest_call, [&](std::size_t begin, std::size_t end, std::byte* data) {
      for (Box& box : make_boxes(tensor.shape, begin, end)) {
        std::byte* const first = data + (box.begin - begin) * size_of(tensor.dtype);
        calls.push_back({piece.tensor, std::move(box), first});
      }
    });
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const Call& a, const Call& b) { return a.tensor < b.tensor; });
  return calls;
}

DatasetId open_tensor(const File& file, const Contents& contents, std::size_t tensor) {
  return open_dataset(file, dataset_path(contents.tensors[tensor]));
}

/// Does all calls of this rank with `move(dataset, dtype, box, data, transfer)`.
template <class Move>
void move_alone(const File& file, const Contents& contents, const Options& options, Move&& move) {
  const ListId transfer = make_transfer(file, false);
  DatasetId dataset;
  std::size_t opened = contents.tensors.size();
  for (const Call& call : plan_calls(contents, options.largest_call)) {
    if (call.tensor != opened) dataset = open_tensor(file, contents, call.tensor);
    opened = call.tensor;
    move(dataset, contents.tensors[call.tensor].dtype, &call.box, call.data, transfer);
  }
}

/// The same on all ranks together: every rank joins every round of calls to a dataset.
template <class Move>
void move_together(const Communicator& comm, const File& file, const Contents& contents,
                   const Options& options, Move&& move) {
  const std::size_t n = contents.tensors.size();
  std::vector<Call> calls;
  std::vector<std::uint64_t> rounds(n, 0);
  comm.agree([&] {
    calls = plan_calls(contents, options.largest_call);
    for (const Call& call : calls) ++rounds[call.tensor];
  });
  comm.host_all_reduce(rounds.data(), n, Reduction::max);

  std::vector<DatasetId> datasets(n);
  ListId transfer;
  comm.agree([&] {
    transfer = make_transfer(file, true);
    for (std::size_t t = 0; t < n; ++t)
      if (rounds[t] > 0) datasets[t] = open_tensor(file, contents, t);
  });

  auto next = calls.begin();
  for (std::size_t t = 0; t < n; ++t)
    for (std::uint64_t round = 0; round < rounds[t]; ++round) {
      const Call* call = next != calls.end() && next->tensor == t ? &*next++ : nullptr;
      comm.agree([&] {
        move(datasets[t], contents.tensors[t].dtype, call ? &call->box : nullptr, call ? call->data : nullptr,
             transfer);
      });
    }
}

/// Writes boxes, and has the disk follow.
class BoxWriter {
 public:
  BoxWriter(const File& file, const Options& options) : file_(file), behind_(file.path(), options.fsync) {}

  void operator()(const DatasetId& dataset, Dtype dtype, const Box* box, const void* data,
                  const ListId& transfer) {
    write_box(file_, dataset, dtype, box, data, transfer);
    if (box) behind_.wrote(box->size * size_of(dtype));
  }

 private:
  const File& file_;
  WriteBehind behind_;
};

template <class T>
std::uint64_t sum_terms(const void* data, std::size_t begin, std::size_t end) {
  const T* values = static_cast<const T*>(data);
  std::uint64_t sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += fingerprint_term(i, values[i - begin]);
  return sum;
}

}  // namespace

void require_inside(const Tensor& tensor, const Piece& piece) {
  if (tensor.shape.empty() || piece.begin > piece.end || piece.end > tensor.size())
    throw EnvironmentError("checkpoint: the range [" + std::to_string(piece.begin) + ", " +
                           std::to_string(piece.end) + ") is outside of " + dataset_path(tensor));
}

void write_alone(const File& file, const Contents& contents, const Options& options) {
  move_alone(file, contents, options, BoxWriter(file, options));
}

void read_alone(const File& file, const Contents& contents, const Options& options) {
  move_alone(file, contents, options, [&](auto&&... arguments) { read_box(file, arguments...); });
}

void read_range(const File& file, const Tensor& tensor, std::size_t begin, std::size_t end, void* data) {
  read_alone(file, {{tensor}, {{0, begin, end, data}}, {}, {}}, {});
}

void write_range(const File& file, const Tensor& tensor, std::size_t begin, std::size_t end, void* data) {
  write_alone(file, {{tensor}, {{0, begin, end, data}}, {}, {}}, {});
}

void write_pieces(const Communicator& comm, const File& file, const Contents& contents,
                  const Options& options) {
  if (!options.collective) return comm.agree([&] { write_alone(file, contents, options); });
  move_together(comm, file, contents, options, BoxWriter(file, options));
}

void read_pieces(const Communicator& comm, const File& file, const Contents& contents,
                 const Options& options) {
  if (!options.collective) return comm.agree([&] { read_alone(file, contents, options); });
  move_together(comm, file, contents, options, [&](auto&&... arguments) { read_box(file, arguments...); });
}

std::uint64_t sum_terms(Dtype dtype, const void* data, std::size_t begin, std::size_t end) {
  return dtype == Dtype::fp64 ? sum_terms<double>(data, begin, end) : sum_terms<float>(data, begin, end);
}

void require_fingerprints(const std::string& path, const std::vector<Tensor>& tensors,
                          const std::vector<std::uint64_t>& found) {
  std::string damaged;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (found[t] != tensors[t].fingerprint)
      damaged += (damaged.empty() ? "" : ", ") + dataset_path(tensors[t]);
  if (!damaged.empty())
    throw Error(ExitCode::environment, path + " is damaged: wrong fingerprint of " + damaged, true);
}

std::vector<std::uint64_t> fingerprints_in_memory(const Communicator& comm, const Contents& contents) {
  std::vector<std::uint64_t> sums(contents.tensors.size(), 0);
  for (const Piece& piece : contents.pieces)
    sums[piece.tensor] += sum_terms(contents.tensors[piece.tensor].dtype, piece.data, piece.begin, piece.end);
  comm.host_all_reduce(sums.data(), sums.size());
  return sums;
}

std::vector<std::uint64_t> fingerprints_in_file(const Communicator& comm, const File& file,
                                                const Contents& contents) {
  constexpr std::size_t buffer_bytes = std::size_t{4} << 20;
  std::vector<std::uint64_t> sums(contents.tensors.size(), 0);
  comm.agree([&] {
    std::vector<std::byte> buffer(buffer_bytes);
    const ListId transfer = make_transfer(file, false);
    for (const Piece& piece : contents.pieces) {
      const Tensor& tensor = contents.tensors.at(piece.tensor);
      const DatasetId dataset = open_dataset(file, dataset_path(tensor));
      for_parts(tensor, piece, buffer_bytes, [&](std::size_t begin, std::size_t end, std::byte*) {
        for (const Box& box : make_boxes(tensor.shape, begin, end))
          read_box(file, dataset, tensor.dtype, &box,
                   buffer.data() + (box.begin - begin) * size_of(tensor.dtype), transfer);
        sums[piece.tensor] += sum_terms(tensor.dtype, buffer.data(), begin, end);
      });
    }
  });
  comm.host_all_reduce(sums.data(), sums.size());
  return sums;
}

}  // namespace shardmark::checkpoint
