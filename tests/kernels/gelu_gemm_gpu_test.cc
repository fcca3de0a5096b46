// SPDX-License-Identifier: MIT
// Checks the hand-written product with gelu_tanh against fp64, on whole tiles, parts of tiles and odd depths.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kernels/cuda/gelu_gemm.h"

namespace strata::kernels {
namespace {

using at::Tensor;

struct Sizes {
  int64_t rows, columns, depth;
};

class GeluProduct : public testing::TestWithParam<std::tuple<at::ScalarType, bool>> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
  at::ScalarType type() const { return std::get<0>(GetParam()); }
  bool has_bias() const { return std::get<1>(GetParam()); }

  Tensor random(at::IntArrayRef sizes) const {
    return at::randn(sizes, at::TensorOptions(at::kCUDA).dtype(at::kFloat)).to(type());
  }
  // Rows have a distance that is a multiple of 8. The elements between them are NaN.
  Tensor padded(int64_t rows, int64_t columns) const {
    const int64_t distance = (columns + 7) / 8 * 8 + 8;
    return at::full({rows, distance}, NAN, at::TensorOptions(at::kCUDA).dtype(type())).narrow(1, 0, columns);
  }
  Tensor padded(const Tensor& values) const {
    const Tensor result = padded(values.size(0), values.size(1));
    result.copy_(values);
    return result;
  }

  // Checks the norm of the error as a share of the result's norm.
  void expect_near(const Tensor& value, const Tensor& expected, const char* what) const {
    const double share = ((value.to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
    EXPECT_LT(share, type() == at::kHalf ? 8e-4 : 5e-3) << what;
    const Tensor between =
        value.as_strided({value.size(0), value.stride(0) - value.size(1)}, {value.stride(0), 1}, value.size(1));
    EXPECT_TRUE(between.isnan().all().item<bool>()) << what << " is written beyond its columns";
  }

  void run(const Sizes& s) const {
    const Tensor a = padded(random({s.rows, s.depth})), b = padded(random({s.columns, s.depth}));
    const Tensor bias = has_bias() ? random({s.columns}) : Tensor();
    const Tensor out = padded(s.rows, s.columns), again = padded(s.rows, s.columns), pre = padded(s.rows, s.columns);
    GeluGemm gemm = {.type = type() == at::kHalf ? CudaType::float16 : CudaType::bfloat16,
                     .a = a.const_data_ptr(),
                     .b = b.const_data_ptr(),
                     .bias = has_bias() ? bias.const_data_ptr() : nullptr,
                     .out = out.mutable_data_ptr(),
                     .pre_activation = pre.mutable_data_ptr(),
                     .rows = s.rows,
                     .columns = s.columns,
                     .depth = s.depth,
                     .a_distance = a.stride(0),
                     .b_distance = b.stride(0),
                     .out_distance = out.stride(0)};
    ASSERT_EQ(launch_gelu_gemm(gemm, c10::cuda::getCurrentCUDAStream()), cudaSuccess);
    Tensor product = at::mm(a.to(at::kDouble), b.to(at::kDouble).t());
    if (has_bias()) product = product + bias.to(at::kDouble);
    expect_near(pre, product, "pre_activation");
    expect_near(out, at::gelu(product, "tanh"), "out");
    gemm.out = again.mutable_data_ptr();
    ASSERT_EQ(launch_gelu_gemm(gemm, c10::cuda::getCurrentCUDAStream()), cudaSuccess);
    EXPECT_TRUE(at::equal(out, again)) << "other bits the second time";
  }
};

TEST_P(GeluProduct, EqualsTheProductInFp64) {
  for (const Sizes& s : {Sizes{256, 256, 64}, Sizes{300, 776, 200}, Sizes{1, 776, 8}, Sizes{2049, 1032, 776},
                         Sizes{9000, 2304, 768}, Sizes{130, 8, 3072}}) {
    SCOPED_TRACE(std::to_string(s.rows) + " x " + std::to_string(s.depth) + " -> " + std::to_string(s.columns));
    run(s);
  }
}

TEST_P(GeluProduct, TakesOddDepths) {
  run({333, 776, 205});
  run({1, 776, 1});  // enough values that a rounding of a few does not count as an error
}

INSTANTIATE_TEST_SUITE_P(Types, GeluProduct,
                         testing::Combine(testing::Values(at::kBFloat16, at::kHalf), testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == at::kHalf ? "fp16" : "bf16") +
                                  (std::get<1>(info.param) ? "_bias" : "");
                         });

TEST(GeluProductTypes, Fp32IsRefused) {
  GeluGemm gemm{};
  gemm.type = CudaType::float32;
  EXPECT_EQ(launch_gelu_gemm(gemm, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace strata::kernels
