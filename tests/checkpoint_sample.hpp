// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/format.hpp"
#include "comm/communicator.hpp"
#include "core/fingerprint.hpp"

namespace shardmark::checkpoint {

/// Which rank owns which elements of a list of tensors.
enum class Split {
  even,        ///< one range of the concatenated tensors a rank, as a sharded run has them
  cyclic,      ///< seven elements a rank in turn
  last_rank,   ///< all on the last rank, nothing on the others
  every_rank,  ///< all on each rank: for loading only
};

/// The value that element i of tensor t holds: any bits but those of NaN.
inline double sample_value(std::size_t t, std::size_t i) {
  return static_cast<double>(static_cast<std::int64_t>(mix64(1000 * t + i))) * 1e-12;
}

/// Contents with their memory. Odd shapes, a tensor smaller than most P, and one element alone.
struct Sample {
  Contents contents;
  std::vector<std::unique_ptr<std::byte[]>> storage;
};

inline std::vector<Tensor> sample_tensors(Dtype dtype) {
  const std::vector<Tensor> shapes = {{"model", "wte.weight", {37, 13}, dtype},
                                      {"model", "h.0.bias", {2}, dtype},
                                      {"model", "h.0.weight", {1, 101}, dtype},
                                      {"model", "scale", {1}, dtype},
                                      {"optimizer/exp_avg", "wte.weight", {37, 13}, dtype},
                                      {"optimizer/exp_avg", "h.0.bias", {2}, dtype}};
  return shapes;
}

template <class T>
void fill_piece(const Piece& piece) {
  for (std::size_t i = piece.begin; i < piece.end; ++i)
    static_cast<T*>(piece.data)[i - piece.begin] = static_cast<T>(sample_value(piece.tensor, i));
}

template <class T>
std::uint64_t fingerprint_of(std::size_t t, std::size_t n) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += fingerprint_term(i, static_cast<T>(sample_value(t, i)));
  return sum;
}

inline Sample make_sample(const Communicator& comm, std::vector<Tensor> tensors, Split split, bool filled) {
  Sample sample;
  sample.contents.tensors = std::move(tensors);
  std::size_t total = 0, before = 0;
  for (const Tensor& tensor : sample.contents.tensors) total += tensor.size();
  const auto rank = static_cast<std::size_t>(comm.rank()), size = static_cast<std::size_t>(comm.size());
  const auto owner = [&](std::size_t i) -> std::size_t {
    if (split == Split::even) return ((before + i) * size) / total;
    if (split == Split::cyclic) return (i / 7) % size;
    return split == Split::last_rank ? size - 1 : rank;
  };
  for (std::size_t t = 0; t < sample.contents.tensors.size(); ++t) {
    Tensor& tensor = sample.contents.tensors[t];
    const std::size_t n = tensor.size();
    const bool wide = tensor.dtype == Dtype::fp64;
    sample.contents.pieces.push_back({t, n / 2, n / 2, nullptr});  // an empty piece
    for (std::size_t i = 0; i < n;) {
      std::size_t end = i + 1;
      while (end < n && owner(end) == owner(i)) ++end;
      if (owner(i) == rank) {
        sample.storage.emplace_back(new std::byte[(end - i) * size_of(tensor.dtype)]());
        const Piece piece{t, i, end, sample.storage.back().get()};
        if (filled) wide ? fill_piece<double>(piece) : fill_piece<float>(piece);
        sample.contents.pieces.push_back(piece);
      }
      i = end;
    }
    if (filled) tensor.fingerprint = wide ? fingerprint_of<double>(t, n) : fingerprint_of<float>(t, n);
    before += n;
  }
  return sample;
}

/// Elements of this rank's pieces that are not what sample_value says.
inline std::size_t wrong_elements(const Contents& contents) {
  std::size_t wrong = 0;
  for (const Piece& piece : contents.pieces)
    for (std::size_t i = piece.begin; i < piece.end; ++i) {
      const double expected = sample_value(piece.tensor, i);
      if (contents.tensors[piece.tensor].dtype == Dtype::fp64)
        wrong += static_cast<const double*>(piece.data)[i - piece.begin] != expected;
      else
        wrong += static_cast<const float*>(piece.data)[i - piece.begin] != static_cast<float>(expected);
    }
  return wrong;
}

/// A new folder for all ranks, removed at the end.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const Communicator& comm) : comm_(comm) {
    std::string pattern = (std::filesystem::temp_directory_path() / "shardmark_XXXXXX").string();
    if (comm.rank() == 0 && !mkdtemp(pattern.data())) throw EnvironmentError("mkdtemp failed");
    path_ = comm.host_broadcast(pattern, 0);
  }
  ~TemporaryFolder() {
    comm_.barrier();
    if (comm_.rank() == 0) std::filesystem::remove_all(path_);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  const Communicator& comm_;
  std::string path_;
};

/// The Error that `action` throws on this rank; fails the test where it throws none, or where ranks differ.
inline Error error_of(const Communicator& comm, const std::function<void()>& action) {
  Error caught(ExitCode::success, "nothing was thrown");
  try {
    action();
  } catch (const Error& error) {
    caught = error;
  }
  EXPECT_TRUE(caught.everywhere()) << caught.what();
  for (const std::string& other : comm.host_gather(caught.what())) EXPECT_EQ(other, caught.what());
  return caught;
}

inline bool contains(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

}  // namespace shardmark::checkpoint
