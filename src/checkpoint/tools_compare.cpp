// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "checkpoint/reader.hpp"
#include "checkpoint/tools.hpp"

namespace shardmark::checkpoint {
namespace {

template <class T>
void add_differences(const std::vector<std::byte>& a, const std::vector<std::byte>& b, std::size_t n,
                     double tolerance, Difference& difference) {
  const T* const left = reinterpret_cast<const T*>(a.data());
  const T* const right = reinterpret_cast<const T*>(b.data());
  for (std::size_t i = 0; i < n; ++i) {
    if (left[i] == right[i] || (std::isnan(left[i]) && std::isnan(right[i]))) continue;
    const double distance = std::fabs(static_cast<double>(left[i]) - static_cast<double>(right[i]));
    if (!(distance <= tolerance)) ++difference.count;
    if (!(distance <= difference.largest)) difference.largest = distance;  // NaN stays
  }
}

/// Tensor s of a and t of b, of one dtype and shape.
Difference compare_data(Reader& a, std::size_t s, Reader& b, std::size_t t, double tolerance) {
  const Tensor& tensor = a.tensors()[s];
  Difference difference{dataset_path(tensor), "", tensor.size(), 0, 0};
  std::vector<std::byte> left(buffer_bytes), right(buffer_bytes);
  for_buffers(tensor.dtype, 0, tensor.size(), [&](std::size_t begin, std::size_t end) {
    a.read(s, begin, end, left.data());
    b.read(t, begin, end, right.data());
    const auto add = tensor.dtype == Dtype::fp64 ? add_differences<double> : add_differences<float>;
    add(left, right, end - begin, tolerance, difference);
  });
  return difference;
}

std::map<std::string, std::size_t> numbers_of(const Reader& reader) {
  std::map<std::string, std::size_t> numbers;
  for (std::size_t t = 0; t < reader.tensors().size(); ++t) numbers[dataset_path(reader.tensors()[t])] = t;
  return numbers;
}

}  // namespace

std::vector<Difference> compare(const std::string& path_a, const std::string& path_b, double tolerance) {
  Reader a(path_a), b(path_b);
  std::map<std::string, std::size_t> others = numbers_of(b);
  std::vector<Difference> differences;
  for (const auto& [dataset, s] : numbers_of(a)) {
    const Tensor& tensor = a.tensors()[s];
    const auto other = others.find(dataset);
    if (other == others.end()) {
      differences.push_back({dataset, "only in " + path_a, tensor.size(), tensor.size(), 0});
      continue;
    }
    const std::size_t t = other->second;
    others.erase(other);
    const std::string here = describe(tensor.dtype, tensor.shape);
    const std::string there = describe(b.tensors()[t].dtype, b.tensors()[t].shape);
    if (here == there) {
      differences.push_back(compare_data(a, s, b, t, tolerance));
    } else {
      differences.push_back({dataset, here + " and " + there, tensor.size(), tensor.size(), 0});
    }
  }
  for (const auto& [dataset, t] : others) {
    const std::size_t n = b.tensors()[t].size();
    differences.push_back({dataset, "only in " + path_b, n, n, 0});
  }
  return differences;
}

}  // namespace shardmark::checkpoint
