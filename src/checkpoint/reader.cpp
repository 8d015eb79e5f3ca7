// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/reader.hpp"

#include "checkpoint/transfer.hpp"

namespace shardmark::checkpoint {

Reader::Reader(const std::string& path)
    : file_(open_checkpoint(path)),
      tensors_(stored_tensors(file_)),
      state_(read_values(file_, "/state")),
      run_(read_values(file_, "/run")),
      index_(read_index(file_, tensors_)),
      buffer_(buffer_bytes) {
  for (std::uint64_t rank = 0; rank < index_.files.size(); ++rank) require_shard(index_, rank);
}

const File& Reader::shard(std::uint64_t rank) {
  constexpr std::size_t most_open = 256;
  const auto open = shards_.find(rank);
  if (open != shards_.end()) return open->second;
  if (shards_.size() == most_open) shards_.clear();
  return shards_.emplace(rank, open_alone(index_.shard_path(rank))).first->second;
}

void Reader::read(std::size_t t, std::size_t begin, std::size_t end, void* data) {
  if (index_.files.empty()) return read_range(file_, tensors_.at(t), begin, end, data);
  for (const auto& [rank, part] : parts_by_file(index_, tensors_, {{t, begin, end, data}}))
    read_alone(shard(rank), part, {});
}

std::uint64_t Reader::terms(std::size_t t, std::size_t begin, std::size_t end) {
  std::uint64_t sum = 0;
  for_buffers(tensors_.at(t).dtype, begin, end, [&](std::size_t first, std::size_t last) {
    read(t, first, last, buffer_.data());
    sum += sum_terms(tensors_[t].dtype, buffer_.data(), first, last);
  });
  return sum;
}

}  // namespace shardmark::checkpoint
