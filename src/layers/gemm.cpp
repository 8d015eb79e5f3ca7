// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "layers/gemm.hpp"

#include <chrono>
#include <string>
#include <type_traits>

#include "core/error.hpp"
#include "layers/gemm_backends.hpp"

namespace shardmark {

GemmCounter& gemm_counter() {
  static GemmCounter counter;
  return counter;
}

namespace {

/// Types that are multiplied as they are by a library, where the processor or the device can.
struct Native {
  bool bf16 = !exec_is_host, fp16 = !exec_is_host;
  bool tf32 = false;  ///< in place of fp32
};
Native& native() {
  static Native chosen;
  return chosen;
}

}  // namespace

template <class A>
bool gemm_is_native() {
  return (std::is_same_v<A, bf16> && native().bf16) || (std::is_same_v<A, fp16> && native().fp16);
}

namespace {

/// Counts what happens during its life, and shows it to Kokkos Tools.
class GemmRegion {
 public:
  GemmRegion(const std::string& label, double flops) : start_(Clock::now()) {
    Kokkos::Profiling::pushRegion(label);
    ++gemm_counter().calls;
    gemm_counter().flops += flops;
  }
  ~GemmRegion() {
    Kokkos::Profiling::popRegion();
    if (exec_is_host) gemm_counter().seconds += std::chrono::duration<double>(Clock::now() - start_).count();
  }
  GemmRegion(const GemmRegion&) = delete;
  GemmRegion& operator=(const GemmRegion&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
};

#ifdef SHARDMARK_ONEDNN
constexpr bool has_onednn = true;
#else
constexpr bool has_onednn = false;
#endif

#ifdef KOKKOS_ENABLE_CUDA
constexpr bool has_cublas = true;
#else
constexpr bool has_cublas = false;
#endif

/// Throws unless a library multiplies `param` here.
void require_native(Dtype param, const std::string& wish) {
  if (!exec_is_host) return;
  const std::string lack =
      param == Dtype::bf16 ? onednn_lacks() : "no library here multiplies fp16 on the host";
  if (!lack.empty())
    throw DeckError("precision.gemm = \"" + wish + "\" does not go with precision.param = \"" +
                    std::string(name_of(param)) + "\" here: " + lack + "; set precision.gemm = \"emulated\"");
}

void require_tf32(Dtype param) {
  if (param != Dtype::fp32)
    throw DeckError("precision.tf32 = true is for fp32; with precision.param = \"" +
                    std::string(name_of(param)) + "\" only false is valid");
  if (!has_cublas)
    throw DeckError("precision.tf32 = true is for products by cuBLAS, and this build multiplies by " +
                    tile_gemm_name() + "; only false is valid");
}

template <class T>
void scale(const Exec& exec, Wide<T> beta, const Matrix<T>& c) {
  const std::size_t columns = c.extent(1);
  Kokkos::parallel_for(
      "shardmark::gemm::scale",
      Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>(
          exec, 0, static_cast<std::int64_t>(c.extent(0) * columns)),
      KOKKOS_LAMBDA(const std::size_t i) {
        T& value = c(i / columns, i % columns);
        value = beta == 0 ? Wide<T>(0) : beta * value;
      });
}

template <class A, class C>
void multiply(const Exec& exec, const Product<A, C>& product) {
  [[maybe_unused]] constexpr bool brain = std::is_same_v<A, bf16>, half = std::is_same_v<A, fp16>;
  if constexpr (std::is_same_v<A, float> && std::is_same_v<C, float>) {
    tile_gemm(exec, product);
  } else if constexpr (std::is_same_v<A, double>) {
    blas_gemm(exec, product);
  } else if (gemm_is_native<A>()) {
#ifdef KOKKOS_ENABLE_CUDA
    if constexpr (brain || half) cublas_gemm(exec, product);
#else
    if constexpr (brain) onednn_gemm(exec, product);
#endif
  } else {
    emulated_gemm(exec, product);
  }
}

}  // namespace

void choose_gemm(Dtype param, const std::string& wish, bool tf32) {
  const bool small = param == Dtype::bf16 || param == Dtype::fp16;
  if (wish != "auto" && wish != "native" && wish != "emulated")
    throw DeckError("precision.gemm = \"" + wish +
                    "\" is unknown; valid: \"auto\", \"native\", \"emulated\"");
  if (!small && wish != "auto")
    throw DeckError("precision.gemm = \"" + wish + "\" is for bf16 and fp16; with precision.param = \"" +
                    std::string(name_of(param)) + "\" only \"auto\" is valid");
  if (tf32) require_tf32(param);
  native().tf32 = tf32;
#ifdef KOKKOS_ENABLE_CUDA
  cublas_allow_tf32(tf32);
#endif
  if (small && wish != "emulated") require_native(param, wish);
  const bool slow = param == Dtype::bf16 && exec_is_host && onednn_is_slow();
  const bool by_library = wish == "native" || (wish == "auto" && !slow);
  if (param == Dtype::bf16) native().bf16 = by_library;
  if (param == Dtype::fp16) native().fp16 = by_library;
}

std::string gemm_description(Dtype param) {
  if (param == Dtype::fp32) return tile_gemm_name() + (native().tf32 ? ", inputs in TF32" : "");
  if (param == Dtype::fp64) return blas_name() + " dgemm";
  if (!(param == Dtype::bf16 ? native().bf16 : native().fp16))
    return "emulated: " + tile_gemm_name() + " on converted tiles";
  return exec_is_host ? onednn_description() : blas_name() + " " + name_of(param) + ", sums in fp32";
}

template <class A, class C>
void gemm(const Exec& exec, Op op_a, Op op_b, Wide<A> alpha, const Matrix<const A>& a,
          const Matrix<const A>& b, Wide<A> beta, const Matrix<C>& c) {
  static const std::string label = "shardmark::gemm::gemm";
  const std::size_t m = c.extent(0), n = c.extent(1), k = a.extent(op_a == Op::none ? 1 : 0);
  if (m == 0 || n == 0) return;
  if (k == 0) return scale<C>(exec, beta, c);
  const GemmRegion region(label, 2.0 * m * n * k);
  // oneDNN is faster for float, above all on narrow matrices and where operands are not in cache.
  constexpr bool by_onednn = has_onednn && std::is_same_v<A, float>;
  if constexpr (std::is_same_v<A, C> && std::is_same_v<A, Wide<A>> && !by_onednn && !has_cublas)
    kernels_gemm(exec, op_a, op_b, alpha, a, b, beta, c);
  else
    multiply(exec, Product<A, C>{op_a,
                                 op_b,
                                 m,
                                 n,
                                 k,
                                 alpha,
                                 {a.data(), a.extent(1), 0},
                                 {b.data(), b.extent(1), 0},
                                 beta,
                                 {c.data(), n, 0},
                                 1});
}

template <class A, class C>
void gemm_batched(const Exec& exec, Op op_a, Op op_b, std::size_t m, std::size_t n, std::size_t k,
                  Wide<A> alpha, const Strided<const A>& a, const Strided<const A>& b, Wide<A> beta,
                  const Strided<C>& c, std::size_t count) {
  static const std::string label = "shardmark::gemm::batched";
  const GemmRegion region(label, 2.0 * m * n * k * count);
  multiply(exec, Product<A, C>{op_a, op_b, m, n, k, alpha, a, b, beta, c, count});
}

template bool gemm_is_native<float>();
template bool gemm_is_native<double>();
template bool gemm_is_native<bf16>();
template bool gemm_is_native<fp16>();

#define SHARDMARK_INSTANTIATE(A, C)                                                                      \
  template void gemm<A, C>(const Exec&, Op, Op, Wide<A>, const Matrix<const A>&, const Matrix<const A>&, \
                           Wide<A>, const Matrix<C>&);                                                   \
  template void gemm_batched<A, C>(const Exec&, Op, Op, std::size_t, std::size_t, std::size_t, Wide<A>,  \
                                   const Strided<const A>&, const Strided<const A>&, Wide<A>,            \
                                   const Strided<C>&, std::size_t);
SHARDMARK_INSTANTIATE(float, float)
SHARDMARK_INSTANTIATE(double, double)
SHARDMARK_INSTANTIATE(float, bf16)
SHARDMARK_INSTANTIATE(bf16, float)
SHARDMARK_INSTANTIATE(bf16, bf16)
SHARDMARK_INSTANTIATE(fp16, float)
SHARDMARK_INSTANTIATE(fp16, fp16)

}  // namespace shardmark
