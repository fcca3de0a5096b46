// SPDX-License-Identifier: MIT
// Checks the hand-written product with gelu_tanh against fp64, on whole tiles, parts of tiles and odd depths.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

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

// Takes its operands from `like` and writes to new tensors full of NaN.
struct Launch {
  Tensor out, pre_activation;
  GeluGemm gemm;

  explicit Launch(const GeluGemm& like)
      : out(at::full({like.rows, like.columns}, NAN, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16))),
        pre_activation(out.clone()),
        gemm(like) {
    gemm.out = out.mutable_data_ptr();
    gemm.pre_activation = pre_activation.mutable_data_ptr();
  }
  void start() const { ASSERT_EQ(launch_gelu_gemm(gemm, c10::cuda::getCurrentCUDAStream()), cudaSuccess); }
};

// Launches that run at the same time would take each other's tiles if they shared a counter.
TEST(GeluProductLaunches, OfStreamsAndGraphsAtTheSameTimeHaveTheSameBits) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  constexpr int64_t kRows = 4096, kDepth = 768, kColumns = 2304;
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  const Tensor a = at::randn({kRows, kDepth}, options), b = at::randn({kColumns, kDepth}, options);
  const GeluGemm like = {.type = CudaType::bfloat16,
                         .a = a.const_data_ptr(),
                         .b = b.const_data_ptr(),
                         .bias = nullptr,
                         .out = nullptr,
                         .pre_activation = nullptr,
                         .rows = kRows,
                         .columns = kColumns,
                         .depth = kDepth,
                         .a_distance = kDepth,
                         .b_distance = kDepth,
                         .out_distance = kColumns};
  const Launch expected(like);
  expected.start();
  const std::vector<Launch> eager = {Launch(like), Launch(like), Launch(like)};
  const std::vector<Launch> graph_launches = {Launch(like), Launch(like)};
  c10::cuda::device_synchronize();
  const auto capturing = c10::cuda::getStreamFromPool();
  std::vector<at::cuda::CUDAGraph> graphs(graph_launches.size());
  for (size_t i = 0; i < graphs.size(); ++i) {
    const c10::cuda::CUDAStreamGuard guard(capturing);
    graphs[i].capture_begin();
    graph_launches[i].start();
    graph_launches[i].start();
    graphs[i].capture_end();
  }
  std::vector<c10::cuda::CUDAStream> streams = {capturing};
  while (streams.size() < eager.size() + graphs.size()) streams.push_back(c10::cuda::getStreamFromPool());
  for (int round = 0; round < 20; ++round) {
    for (size_t i = 0; i < streams.size(); ++i) {
      const c10::cuda::CUDAStreamGuard guard(streams[i]);
      if (i < eager.size()) {
        eager[i].start();
      } else {
        graphs[i - eager.size()].replay();
      }
    }
  }
  c10::cuda::device_synchronize();
  for (const auto* launches : {&eager, &graph_launches}) {
    for (const Launch& launch : *launches) {
      EXPECT_TRUE(at::equal(launch.out, expected.out));
      EXPECT_TRUE(at::equal(launch.pre_activation, expected.pre_activation));
    }
  }
}

TEST(GeluProductDevices, AllGiveTheSameBits) {
  const int devices = at::hasCUDA() ? c10::cuda::device_count() : 0;
  if (devices < 2) GTEST_SKIP() << "not run: there are not two GPUs";
  constexpr int64_t kSize = 768;
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  const Tensor a = at::randn({kSize, kSize}, options), b = at::randn({kSize, kSize}, options);
  Tensor expected;
  for (int device = 0; device < devices; ++device) {
    SCOPED_TRACE("device " + std::to_string(device));
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
    const Tensor own_a = a.to(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)));
    const Tensor own_b = b.to(own_a.device()), out = at::full({kSize, kSize}, NAN, own_a.options());
    const Tensor pre_activation = at::empty_like(out);
    const GeluGemm gemm = {.type = CudaType::bfloat16,
                           .a = own_a.const_data_ptr(),
                           .b = own_b.const_data_ptr(),
                           .bias = nullptr,
                           .out = out.mutable_data_ptr(),
                           .pre_activation = pre_activation.mutable_data_ptr(),
                           .rows = kSize,
                           .columns = kSize,
                           .depth = kSize,
                           .a_distance = kSize,
                           .b_distance = kSize,
                           .out_distance = kSize};
    ASSERT_EQ(launch_gelu_gemm(gemm, c10::cuda::getCurrentCUDAStream()), cudaSuccess);
    if (device == 0) expected = out.cpu();
    EXPECT_TRUE(at::equal(out.cpu(), expected));
  }
}

TEST(GeluProductTypes, Fp32IsRefused) {
  GeluGemm gemm{};
  gemm.type = CudaType::float32;
  EXPECT_EQ(launch_gelu_gemm(gemm, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace strata::kernels
