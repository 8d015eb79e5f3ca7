// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/rng.hpp"
#include "core/types.hpp"

namespace shardmark {

template <class T>
OwnedVector<T> to_device(const std::vector<T>& values) {
  OwnedVector<T> result = allocate<T>("shardmark::test::values", values.size());
  Kokkos::deep_copy(result,
                    Kokkos::View<const T*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
                        values.data(), values.size()));
  return result;
}

template <class T>
std::vector<T> to_host(const OwnedVector<T>& view) {
  std::vector<T> values(view.extent(0));
  Kokkos::deep_copy(Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
                        values.data(), values.size()),
                    view);
  return values;
}

/// n normal numbers that depend on the name only.
template <class T = double>
std::vector<T> random_values(const std::string& name, std::size_t n, double scale = 1, double mean = 0) {
  const std::uint64_t key = stream_key(7, name);
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>(mean + scale * Philox(key, i).normal());
  return values;
}

template <class T = double>
OwnedVector<T> random_tensor(const std::string& name, std::size_t n, double scale = 1, double mean = 0) {
  return to_device(random_values<T>(name, n, scale, mean));
}

template <class T = double>
OwnedVector<T> constant_tensor(std::size_t n, double value) {
  return to_device(std::vector<T>(n, static_cast<T>(value)));
}

/// The sum of weights(i) y(i): the scalar that turns a layer's output into a loss.
inline double weighted_sum(const OwnedVector<double>& weights, const OwnedVector<double>& y) {
  const auto w = to_host(weights), v = to_host(y);
  double sum = 0;
  for (std::size_t i = 0; i < w.size(); ++i) sum += w[i] * v[i];
  return sum;
}

/// The largest |a - b| over the largest |b|; NaN where there is one.
template <class A, class B>
double relative_difference(const std::vector<A>& a, const std::vector<B>& b) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(d)) return d;
    difference = std::max(difference, d);
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return largest == 0 ? difference : difference / largest;
}

/// Central differences of loss() for elements [begin, end) of `values`, which is left as it was.
template <class Loss>
std::vector<double> numerical_gradient(const Vector<double>& values, const Loss& loss, double step = 1e-5) {
  std::vector<double> gradient(values.extent(0));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const Vector<double> element = slice(values, i, i + 1);
    double original = 0;
    Kokkos::View<double, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>> host(&original);
    Kokkos::deep_copy(host, Kokkos::subview(element, 0));
    Kokkos::deep_copy(element, original + step);
    const double above = loss();
    Kokkos::deep_copy(element, original - step);
    const double below = loss();
    Kokkos::deep_copy(element, original);
    gradient[i] = (above - below) / (2 * step);
  }
  return gradient;
}

/// The gradient must agree with central differences to 1e-6 of the tensor's largest gradient.
template <class Loss>
void expect_gradient(const std::string& name, const Vector<double>& values,
                     const std::vector<double>& gradient, const Loss& loss) {
  const std::vector<double> expected = numerical_gradient(values, loss);
  ASSERT_EQ(gradient.size(), expected.size()) << name;
  EXPECT_LT(relative_difference(gradient, expected), 1e-6) << name;
}

}  // namespace shardmark
