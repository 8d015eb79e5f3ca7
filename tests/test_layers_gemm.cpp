// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "gemm_choice.hpp"
#include "gradient_check.hpp"
#include "precision_check.hpp"

namespace shardmark {
namespace {

/// `count` products of matrices that lie in larger arrays: 3 columns and 5 elements a matrix too many.
template <class A, class C>
struct Case {
  Op op_a, op_b;
  std::size_t m, n, k, count;
  Wide<A> alpha, beta;
  std::vector<A> a, b;
  std::vector<C> c;

  static constexpr std::size_t gap = 3, rest = 5;

  Case(Op op_a_, Op op_b_, std::size_t m_, std::size_t n_, std::size_t k_, std::size_t count_, double alpha_,
       double beta_)
      : op_a(op_a_),
        op_b(op_b_),
        m(m_),
        n(n_),
        k(k_),
        count(count_),
        alpha(static_cast<Wide<A>>(alpha_)),
        beta(static_cast<Wide<A>>(beta_)),
        a(random_values<A>("a", count * batch_a())),
        b(random_values<A>("b", count * batch_b())),
        c(random_values<C>("c", count * batch_c())) {}

  std::size_t row_a() const { return (op_a == Op::none ? k : m) + gap; }
  std::size_t row_b() const { return (op_b == Op::none ? n : k) + gap; }
  std::size_t row_c() const { return n + gap; }
  std::size_t batch_a() const { return (op_a == Op::none ? m : k) * row_a() + rest; }
  std::size_t batch_b() const { return (op_b == Op::none ? k : n) * row_b() + rest; }
  std::size_t batch_c() const { return m * row_c() + rest; }

  std::vector<C> product() const {
    const auto da = to_device(a), db = to_device(b);
    const auto dc = to_device(c);
    gemm_batched<A, C>(Exec(), op_a, op_b, m, n, k, alpha, {da.data(), row_a(), batch_a()},
                       {db.data(), row_b(), batch_b()}, beta, {dc.data(), row_c(), batch_c()}, count);
    Exec().fence();
    return to_host(dc);
  }

  /// Each element within the rounding of C and of a sum of k terms; elements in gaps as they were.
  void check(const std::vector<C>& result) const {
    std::vector<bool> written(c.size(), false);
    for (std::size_t batch = 0; batch < count; ++batch) {
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          double sum = 0, size = 0;
          for (std::size_t l = 0; l < k; ++l) {
            const double x = a[batch * batch_a() + (op_a == Op::none ? i * row_a() + l : l * row_a() + i)];
            const double y = b[batch * batch_b() + (op_b == Op::none ? l * row_b() + j : j * row_b() + l)];
            sum += x * y;
            size += std::abs(x * y);
          }
          const std::size_t place = batch * batch_c() + i * row_c() + j;
          const double before = beta == 0 ? 0 : static_cast<double>(beta) * static_cast<double>(c[place]);
          const double expected = alpha * sum + before;
          const double sums =
              (k + 2.0) * unit_roundoff<Wide<A>> * (std::abs(alpha) * size + std::abs(before));
          ASSERT_LE(std::abs(static_cast<double>(result[place]) - expected), sums + rounding<C>(expected))
              << "element " << i << ", " << j << " of product " << batch;
          written[place] = true;
        }
      }
    }
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (!written[i]) {
        ASSERT_EQ(static_cast<double>(result[i]), static_cast<double>(c[i])) << "between the rows of C";
      }
    }
  }
};

template <class A, class C>
struct Pair {
  using Of = A;
  using To = C;
};
using Pairs = testing::Types<Pair<float, float>, Pair<double, double>, Pair<float, bf16>, Pair<bf16, float>,
                             Pair<bf16, bf16>, Pair<fp16, float>, Pair<fp16, fp16>>;

template <class Types>
struct GemmOfTypes : testing::Test {
  using A = typename Types::Of;
  using C = typename Types::To;

  /// The way that hosts always have, and where there is one the library's own.
  template <class Function>
  static void for_each_way(const Function& f) {
    const std::vector<std::string> small_ways = {"emulated", "native"}, only_way = {"auto"};
    for (const std::string& wish : sizeof(A) == 2 ? small_ways : only_way) {
      const GemmChoice choice(dtype_of<A>, wish);
      SCOPED_TRACE(gemm_description(dtype_of<A>));
      if (choice.here()) f();
    }
  }
};
TYPED_TEST_SUITE(GemmOfTypes, Pairs);

TYPED_TEST(GemmOfTypes, AllFormsFactorsAndOddSizes) {
  using Test = Case<typename TypeParam::Of, typename TypeParam::To>;
  TestFixture::for_each_way([] {
    for (const Op op_a : {Op::none, Op::transpose}) {
      for (const Op op_b : {Op::none, Op::transpose}) {
        for (const auto& [alpha, beta] :
             {std::pair{1.0, 0.0}, {1.0, 1.0}, {0.125, 0.0}, {1.5, 1.0}, {0.75, -0.5}}) {
          for (const std::size_t count : {1, 3}) {
            const Test small(op_a, op_b, 3, 5, 7, count, alpha, beta),
                odd(op_a, op_b, 33, 17, 65, count, alpha, beta);
            small.check(small.product());
            odd.check(odd.product());
          }
        }
        const Test one(op_a, op_b, 1, 1, 1, 1, 1, 0);
        one.check(one.product());
      }
    }
  });
}

// Several tiles in each direction; a 16-bit C that were rounded after each would be off by more.
TYPED_TEST(GemmOfTypes, LongSumsAreRoundedOnce) {
  using Test = Case<typename TypeParam::Of, typename TypeParam::To>;
  TestFixture::for_each_way([] {
    for (const auto& [op_a, op_b] : {std::pair{Op::none, Op::transpose}, {Op::transpose, Op::none}}) {
      const Test deep(op_a, op_b, 5, 9, 1300, 1, 1, 1), wide(op_a, op_b, 521, 1031, 3, 1, 1, 1),
          paged(op_a, op_b, 5, 1024, 17, 1, 1, 1);
      deep.check(deep.product());
      wide.check(wide.product());
      paged.check(paged.product());
    }
  });
}

TYPED_TEST(GemmOfTypes, WithBetaZeroNanInCDoesNotMatter) {
  using Test = Case<typename TypeParam::Of, typename TypeParam::To>;
  TestFixture::for_each_way([] {
    Test test(Op::none, Op::none, 17, 19, 600, 1, 1, 0);
    for (std::size_t i = 0; i < test.m; ++i) {
      for (std::size_t j = 0; j < test.n; ++j)
        test.c[i * test.row_c() + j] = std::numeric_limits<float>::quiet_NaN();
    }
    test.check(test.product());
  });
}

TYPED_TEST(GemmOfTypes, WholeMatrices) {
  using A = typename TypeParam::Of;
  using C = typename TypeParam::To;
  const std::size_t m = 5, n = 3, k = 7;
  const auto a = random_tensor<A>("a", m * k), b = random_tensor<A>("b", k * n);
  TestFixture::for_each_way([&] {
    const auto c = constant_tensor<C>(m * n, 2), d = to_device(to_host(c));
    gemm_counter() = {};
    gemm<A, C>(Exec(), Op::none, Op::none, 0.5, as_matrix<A>(a, m, k), as_matrix<A>(b, k, n), 1,
               as_matrix<C>(c, m, n));
    EXPECT_EQ(gemm_counter().calls, 1u);
    EXPECT_EQ(gemm_counter().flops, 2.0 * m * n * k);
    gemm_batched<A, C>(Exec(), Op::none, Op::none, m, n, k, 0.5, {a.data(), k, 0}, {b.data(), n, 0}, 1,
                       {d.data(), n, 0}, 1);
    Exec().fence();
    EXPECT_LE(relative_difference(to_host(c), to_host(d)), 4 * unit_roundoff<Wide<A>>);

    gemm<A, C>(Exec(), Op::none, Op::none, 1, Matrix<A>(nullptr, m, 0), Matrix<A>(nullptr, 0, n), 0.5,
               as_matrix<C>(d, m, n));  // without inner extent
    Exec().fence();
    for (std::size_t i = 0; i < m * n; ++i) EXPECT_EQ(to_host(d)[i], 0.5f * to_host(c)[i]);
  });
}

TEST(GemmChoice, RefusesWhatCannotBe) {
  const auto error_of = [](Dtype param, const char* wish, bool tf32 = false) -> std::string {
    try {
      choose_gemm(param, wish, tf32);
    } catch (const DeckError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of(Dtype::fp32, "auto") + error_of(Dtype::fp64, "auto"), "");
  EXPECT_EQ(error_of(Dtype::bf16, "emulated") + error_of(Dtype::fp16, "emulated"), "");
  EXPECT_NE(error_of(Dtype::bf16, "fast").find("valid: \"auto\", \"native\", \"emulated\""),
            std::string::npos);
  EXPECT_NE(error_of(Dtype::fp32, "emulated").find("\"fp32\" only \"auto\" is valid"), std::string::npos);
  EXPECT_NE(error_of(Dtype::fp64, "native").find("\"fp64\" only \"auto\" is valid"), std::string::npos);
  for (const Dtype param : {Dtype::fp64, Dtype::bf16, Dtype::fp16})
    EXPECT_NE(error_of(param, param == Dtype::fp64 ? "auto" : "emulated", true).find("only false is valid"),
              std::string::npos);
  if (exec_is_host) {
    EXPECT_EQ(error_of(Dtype::fp32, "auto", true),
              "precision.tf32 = true is for products by cuBLAS, and this build multiplies by " +
                  gemm_description(Dtype::fp32) + "; only false is valid");
    EXPECT_NE(error_of(Dtype::fp16, "native").find("set precision.gemm = \"emulated\""), std::string::npos);
    EXPECT_NE(error_of(Dtype::fp16, "auto").find("set precision.gemm = \"emulated\""), std::string::npos);
  }
  if (exec_is_host && onednn_version().empty()) {
    EXPECT_NE(error_of(Dtype::bf16, "auto").find("no oneDNN"), std::string::npos);
  }
}

bool is_intel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

// TF32 keeps 10 bits of fraction of what is read: a product then differs by more than fp32's rounding.
TEST(GemmChoice, Tf32RoundsWhatFp32ProductsRead) {
  const Case<float, float> test(Op::none, Op::transpose, 64, 96, 384, 1, 1, 0);
  const auto exact = test.product();
  try {
    choose_gemm(Dtype::fp32, "auto", true);
  } catch (const DeckError&) {
    GTEST_SKIP() << "no cuBLAS here";
  }
  const double difference = relative_difference(test.product(), exact);
  EXPECT_NE(gemm_description(Dtype::fp32).find("TF32"), std::string::npos);
  choose_gemm(Dtype::fp32, "auto");
  EXPECT_GT(difference, 1e-5);
  EXPECT_LT(difference, 2e-3);
  EXPECT_EQ(test.product(), exact);
}

TEST(GemmChoice, IsWhatTheDescriptionSays) {
  EXPECT_NE(gemm_description(Dtype::fp32).find("sgemm"), std::string::npos);
  EXPECT_NE(gemm_description(Dtype::fp64).find("dgemm"), std::string::npos);
  choose_gemm(Dtype::bf16, "emulated");
  EXPECT_EQ(gemm_description(Dtype::bf16).rfind("emulated: ", 0), 0u);
  const std::string emulated = gemm_description(Dtype::bf16);
  const GemmChoice native(Dtype::bf16, "native");
  if (!native.here()) GTEST_SKIP() << "no native bf16 products here";
  const std::string described = gemm_description(Dtype::bf16);
  const bool slow = described.find("avx512_core_bf16") != std::string::npos && is_intel();
  const GemmChoice fast(Dtype::bf16, "auto");
  EXPECT_EQ(gemm_description(Dtype::bf16), slow ? emulated : described);
  EXPECT_EQ(described.find("emulated"), std::string::npos);
  EXPECT_NE(described.find("bf16"), std::string::npos);
}

// Every shape twice the same bits, also after others; the emulated way within rounding of the native one.
TEST(GemmChoice, NativeProductsRepeatAndAgreeWithEmulatedOnes) {
  const Case<bf16, bf16> test(Op::none, Op::transpose, 64, 96, 384, 2, 1, 0);
  const Case<bf16, float> other(Op::transpose, Op::none, 96, 64, 32, 1, 1, 1);
  const auto bits = [](const std::vector<bf16>& values) {
    std::vector<std::uint16_t> result;
    for (const bf16 value : values) result.push_back(value.bits);
    return result;
  };
  const auto emulated = test.product();
  const auto emulated_other = other.product();
  const GemmChoice native(Dtype::bf16, "native");
  if (!native.here()) GTEST_SKIP() << "no native bf16 products here";
  const auto first = test.product();
  EXPECT_LE(relative_difference(other.product(), emulated_other), 1e-6);
  EXPECT_EQ(bits(test.product()), bits(first));
  EXPECT_LE(relative_difference(first, emulated), 2 * unit_roundoff<bf16>);
}

}  // namespace
}  // namespace shardmark
