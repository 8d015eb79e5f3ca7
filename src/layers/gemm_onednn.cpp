// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "layers/gemm_backends.hpp"

#ifdef SHARDMARK_ONEDNN
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <unordered_map>

namespace shardmark {
namespace {

using dnnl::memory;

/// Primitives kept at most. A run has some hundred shapes; where there are more, all are made again.
constexpr std::size_t most_primitives = 1024;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// A product of fixed shape, with its operands as oneDNN sees them.
struct Matmul {
  dnnl::matmul primitive;
  std::unordered_map<int, memory> operands;
};

template <class T>
memory::desc describe(const Strided<T>& matrix, Op op, std::size_t rows, std::size_t columns,
                      std::size_t count, memory::data_type type) {
  const auto number = [](std::size_t n) { return static_cast<memory::dim>(n); };
  memory::dims extents{number(rows), number(columns)}, strides{number(matrix.row), 1};
  if (op == Op::transpose) std::swap(strides[0], strides[1]);
  if (count > 1) {
    extents.insert(extents.begin(), number(count));
    strides.insert(strides.begin(), number(matrix.batch));
  }
  return {extents, type, strides};
}

/// beta C is added in float before C is rounded. Only in this way has every version of oneDNN fast code.
dnnl::primitive_attr factors(float alpha, float beta) {
  dnnl::primitive_attr attributes;
#if DNNL_VERSION_MAJOR >= 3
  if (alpha != 1) attributes.set_scales_mask(DNNL_ARG_SRC, 0);
#else
  if (alpha != 1) attributes.set_output_scales(0, {alpha});
#endif
  dnnl::post_ops sum;
  if (beta != 0) sum.append_sum(beta);
  attributes.set_post_ops(sum);
  return attributes;
}

/// From version 3 on, primitives read alpha when they run.
void add_scale([[maybe_unused]] float alpha, [[maybe_unused]] std::unordered_map<int, memory>& operands) {
#if DNNL_VERSION_MAJOR >= 3
  if (alpha == 1) return;
  const memory scale({{1}, memory::data_type::f32, memory::format_tag::x}, engine());
  *static_cast<float*>(scale.get_data_handle()) = alpha;
  operands.emplace(DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, scale);
#endif
}

template <class C>
Matmul make_matmul(const Product<bf16, C>& p) {
  constexpr auto narrow = memory::data_type::bf16;
  constexpr auto type_of_c = sizeof(C) == 2 ? narrow : memory::data_type::f32;
  const auto a = describe(p.a, p.op_a, p.m, p.k, p.count, narrow);
  const auto b = describe(p.b, p.op_b, p.k, p.n, p.count, narrow);
  const auto c = describe(p.c, Op::none, p.m, p.n, p.count, type_of_c);
  const dnnl::primitive_attr attributes = factors(p.alpha, p.beta);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc description(engine(), a, b, c, attributes);
#else
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, engine());
#endif
  Matmul made{dnnl::matmul(description),
              {{DNNL_ARG_SRC, memory(a, engine(), nullptr)},
               {DNNL_ARG_WEIGHTS, memory(b, engine(), nullptr)},
               {DNNL_ARG_DST, memory(c, engine(), nullptr)}}};
  add_scale(p.alpha, made.operands);
  return made;
}

/// The primitive of this shape: made at the first call, found at later ones.
template <class C>
Matmul& matmul_of(const Product<bf16, C>& p) {
  const auto key = std::make_tuple(p.op_a, p.op_b, p.m, p.n, p.k, p.a.row, p.b.row, p.c.row, p.a.batch,
                                   p.b.batch, p.c.batch, p.count, p.alpha, p.beta);
  static std::map<std::remove_const_t<decltype(key)>, Matmul> made;
  auto found = made.find(key);
  if (found == made.end()) {
    if (made.size() == most_primitives) made.clear();
    found = made.emplace(key, make_matmul(p)).first;
  }
  return found->second;
}

/// Instruction sets with bf16 products, the best first.
struct Isa {
  dnnl::cpu_isa isa;
  const char* name;
};
constexpr Isa native_isas[] = {{dnnl::cpu_isa::avx512_core_amx, "avx512_core_amx"},
                               {dnnl::cpu_isa::avx512_core_bf16, "avx512_core_bf16"}};

/// The name of the one that oneDNN uses here; null where it would emulate. Its constants are sets of bits.
const char* native_isa() {
  const auto here = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  for (const Isa& candidate : native_isas) {
    const auto bits = static_cast<unsigned>(candidate.isa);
    if ((here & bits) == bits) return candidate.name;
  }
  return nullptr;
}

}  // namespace

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

std::string onednn_lacks() {
  return native_isa() != nullptr ? "" : "the processor has no bf16 products (AVX512-BF16 or AMX)";
}

bool onednn_is_slow() {
#if defined(__x86_64__)
  const char* isa = native_isa();
  return isa != nullptr && isa != native_isas[0].name && __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

std::string onednn_description() {
  const char* isa = native_isa();
  return "oneDNN " + onednn_version() + " bf16 " + (isa != nullptr ? isa : "without native products");
}

template <class C>
void onednn_gemm(const Exec&, const Product<bf16, C>& p) {
  static dnnl::stream stream(engine());
  try {
    Matmul& matmul = matmul_of(p);
    matmul.operands.at(DNNL_ARG_SRC).set_data_handle(const_cast<bf16*>(p.a.data));
    matmul.operands.at(DNNL_ARG_WEIGHTS).set_data_handle(const_cast<bf16*>(p.b.data));
    matmul.operands.at(DNNL_ARG_DST).set_data_handle(p.c.data);
    matmul.primitive.execute(stream, matmul.operands);
    stream.wait();
  } catch (const dnnl::error& error) {
    throw EnvironmentError(std::string("oneDNN failed in a bf16 product: ") + error.what());
  }
}

void tile_gemm(const Exec&, const Product<float, float>& p) {
  const auto number = [](std::size_t n) { return static_cast<dnnl_dim_t>(n); };
  for (std::size_t i = 0; i < p.count; ++i) {
    const dnnl_status_t status =
        dnnl_sgemm(static_cast<char>(p.op_a), static_cast<char>(p.op_b), number(p.m), number(p.n),
                   number(p.k), p.alpha, p.a.data + i * p.a.batch, number(p.a.row), p.b.data + i * p.b.batch,
                   number(p.b.row), p.beta, p.c.data + i * p.c.batch, number(p.c.row));
    if (status != dnnl_success)
      throw EnvironmentError("oneDNN failed in an fp32 product: status " + std::to_string(status));
  }
}

std::string tile_gemm_name() {
  return "oneDNN " + onednn_version() + " sgemm";
}

}  // namespace shardmark

#else

#include <stdexcept>

namespace shardmark {

std::string onednn_version() {
  return "";
}
std::string onednn_lacks() {
  return "this build has no oneDNN (libdnnl-dev)";
}
bool onednn_is_slow() {
  return false;
}
std::string onednn_description() {
  return "no oneDNN";
}
void tile_gemm(const Exec& exec, const Product<float, float>& product) {
  blas_gemm(exec, product);
}
std::string tile_gemm_name() {
  return blas_name() + " sgemm";
}
template <class C>
void onednn_gemm(const Exec&, const Product<bf16, C>&) {
  throw std::logic_error("gemm: this build has no oneDNN");
}

}  // namespace shardmark
#endif

namespace shardmark {
template void onednn_gemm(const Exec&, const Product<bf16, float>&);
template void onednn_gemm(const Exec&, const Product<bf16, bf16>&);
}  // namespace shardmark
