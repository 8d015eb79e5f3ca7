// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/bench_gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "layers/attention_tiles.hpp"
#include "layers/gemm.hpp"
#include "train/metrics.hpp"
#include "train/peak.hpp"
#include "train/precision_dispatch.hpp"
#include "train/preflight.hpp"

namespace shardmark {

namespace {

/// FLOPs between two looks at the clock, at least: small on hosts, beside what launching takes on devices
/// large.
constexpr double least_work = exec_is_host ? 2e7 : 2e11;

template <class T>
OwnedVector<T> operand(const Exec& exec, std::size_t n) {
  auto memory = allocate<T>("shardmark::bench_gemm::operand", n);
  Kokkos::deep_copy(exec, memory, static_cast<T>(0.5));
  return memory;
}

/// As attention in tiles has this product: what NT gives is computed transposed, from a transposed B.
void product_in_tiles(const ProductShape& shape, const float* a, const float* b, float* c) {
  if (shape.transpose_b)
    tiled_attention_product(false, shape.n, shape.m, shape.k, b, a, c);
  else
    tiled_attention_product(true, shape.m, shape.n, shape.k, a, b, c);
}

/// The median of the rates of A x B -> C over the repeats, after two calls to warm up.
template <class A, class C>
double rate_of(const Exec& exec, const Communicator& world, const ProductShape& shape,
               [[maybe_unused]] bool in_tiles, int repeats) {
  const auto a = operand<A>(exec, shape.m * shape.k), b = operand<A>(exec, shape.k * shape.n);
  const auto c = operand<C>(exec, shape.m * shape.n);
  const Op op_a = shape.transpose_a ? Op::transpose : Op::none;
  const Op op_b = shape.transpose_b ? Op::transpose : Op::none;
  const std::size_t row_a = shape.transpose_a ? shape.m : shape.k;
  const std::size_t row_b = shape.transpose_b ? shape.k : shape.n;
  // Small products are timed many at a time, as attention calls them.
  const std::size_t count = std::max<std::size_t>(1, static_cast<std::size_t>(least_work / shape.flops()));
  std::vector<double> rates;
  for (int repeat = -2; repeat < repeats; ++repeat) {
    world.barrier();
    fence(exec, "shardmark::bench_gemm::rate_of: the clock starts");
    const Stopwatch watch;
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<A, float> && std::is_same_v<C, float>) {
        if (in_tiles) {
          product_in_tiles(shape, a.data(), b.data(), c.data());
          continue;
        }
      }
      if (shape.batched)
        gemm_batched<A, C>(exec, op_a, op_b, shape.m, shape.n, shape.k, 1, {a.data(), row_a, 0},
                           {b.data(), row_b, 0}, 0, {c.data(), shape.n, 0}, 1);
      else
        gemm<A, C>(exec, op_a, op_b, 1, as_matrix<const A>(a, a.extent(0) / row_a, row_a),
                   as_matrix<const A>(b, b.extent(0) / row_b, row_b), 0, as_matrix<C>(c, shape.m, shape.n));
    }
    fence(exec, "shardmark::bench_gemm::rate_of: the clock stops");
    if (repeat >= 0) rates.push_back(static_cast<double>(count) * shape.flops() / watch.seconds());
  }
  return summarize(rates).median;
}

std::string table(const std::vector<ProductRate>& rates, double roof) {
  double best = 0, all = seconds_of(rates);
  for (const ProductRate& rate : rates) best = std::max(best, rate.flops_per_second);
  std::string text = fmt::format("{:<28}{:>8}{:>8}{:>8}{:>4}{:>12}{:>9}{:>12}\n", "product", "m", "n", "k",
                                 "op", "GFLOP/s", "of best", "of the time");
  for (const auto& [shape, rate] : rates)
    text +=
        fmt::format("{:<28}{:>8}{:>8}{:>8}{:>4}{:>12.1f}{:>9.2f}{:>12.3f}\n", shape.name, shape.m, shape.n,
                    shape.k, std::string(shape.transpose_a ? "T" : "N") + (shape.transpose_b ? "T" : "N"),
                    rate / 1e9, rate / best, shape.times * shape.flops() / rate / all);
  text += fmt::format("best {:.1f} GFLOP/s; a micro-batch's products take {:.4f} s at these rates\n",
                      best / 1e9, all);
  if (roof == 0) return text;
  double flops = 0;
  for (const auto& [shape, rate] : rates) flops += shape.times * shape.flops();
  return text + fmt::format(
                    "fp32 multiply-adds from registers alone: {:.1f} GFLOP/s; the best product has {:.2f} "
                    "of that, all of them {:.2f}\n",
                    roof / 1e9, best / roof, flops / all / roof);
}

}  // namespace

double seconds_of(const std::vector<ProductRate>& rates) {
  double seconds = 0;
  for (const auto& [shape, rate] : rates) seconds += shape.times * shape.flops() / rate;
  return seconds;
}

std::vector<ProductRate> measure_products(const RunConfig& config, const Communicator& world, int repeats,
                                          const std::function<void(const ProductRate&)>& tell) {
  const Exec exec;
  const std::vector<ProductShape> shapes = product_shapes(config.model, config.activations());
  std::uint64_t largest = 0;
  for (const ProductShape& s : shapes)
    largest = std::max<std::uint64_t>(largest, s.m * s.k + s.k * s.n + s.m * s.n);
  MemoryBytes bytes = {};
  bytes[static_cast<std::size_t>(MemoryClass::activations)] = largest * size_of(config.precision.master);
  require_memory(world, bytes);
  const ModelConfig& model = config.model;
  const bool tiles =
      model.kind == "gpt" &&
      with_precision(config.precision,
                     []<class T, class G>() { return !std::is_same_v<T, double> && !gemm_is_native<T>(); }) &&
      attention_has_tiles({config.train.micro_batch, model.context, model.heads, model.width});
  std::vector<ProductRate> rates;
  for (const ProductShape& shape : shapes) {
    const bool in_tiles = tiles && shape.batched;
    const bool gradient = shape.name.find("weight gradient") != std::string::npos;
    const double rate = with_precision(config.precision, [&]<class T, class G>() {
      if (in_tiles) return rate_of<float, float>(exec, world, shape, true, repeats);
      if (shape.wide || shape.name == "head forward")
        return rate_of<T, Wide<T>>(exec, world, shape, false, repeats);
      if (gradient) return rate_of<T, G>(exec, world, shape, false, repeats);
      return rate_of<T, T>(exec, world, shape, false, repeats);
    });
    rates.push_back({shape, rate});
    if (tell) tell(rates.back());
  }
  return rates;
}

ExitCode bench_gemm(const BenchGemmOptions& options) {
  const auto world = make_world_communicator("mpi");
  Deck deck = read_deck(*world, options.deck, options.overrides).with({});
  const RunConfig config = read_run_config(deck);
  choose_gemm(config.precision.param, config.precision.gemm, config.precision.tf32);
  const std::size_t products = product_shapes(config.model, config.activations()).size();
  std::size_t done = 0;
  double roof = 0;  // the best of looks between the products: the clock of a processor may change
  const auto rates = measure_products(config, *world, options.repeats, [&](const ProductRate& rate) {
    ++done;
    roof = std::max(roof, measure_fma_roof(Exec()));
    if (world->rank() == 0)
      fmt::print(stderr, "{} of {}: {} {:.1f} GFLOP/s\n", done, products, rate.shape.name,
                 rate.flops_per_second / 1e9);
  });
  world->agree([&] {
    if (world->rank() != 0) return;
    fmt::print("{} ranks at once, rank 0, {} by {}, medians of {}\n{}", world->size(),
               name_of(config.precision.param), gemm_description(config.precision.param), options.repeats,
               table(rates, roof));
    if (options.json.empty()) return;
    auto rows = nlohmann::ordered_json::array();
    for (const auto& [shape, rate] : rates)
      rows.push_back({{"name", shape.name},
                      {"m", shape.m},
                      {"n", shape.n},
                      {"k", shape.k},
                      {"transpose_a", shape.transpose_a},
                      {"transpose_b", shape.transpose_b},
                      {"times", shape.times},
                      {"flops_per_second", rate}});
    if (!(std::ofstream(options.json) << rows.dump(2) << std::endl))
      throw EnvironmentError(options.json + ": can't be written");
  });
  return ExitCode::success;
}

}  // namespace shardmark
