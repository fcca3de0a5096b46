// SPDX-License-Identifier: MIT
// Products of cuSPARSELt with pruned weights on a GPU, against products in fp64. Weights are pruned on the CPU for
// them, so the kernel that prunes is checked too. The last case prints rates.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda/gemm.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/sparse_linear.h"
#include "kernels/runtime/traced.h"
#include "kernels/sparsity/prune.h"
#include "kernels/sparsity/sparse_gemm.h"
#include "tests/kernels/quantize/gpu_checks.h"

namespace strata::kernels {
namespace {

constexpr at::ScalarType kTypes[] = {at::kBFloat16, at::kHalf};
constexpr const char* kOp = "linear";

struct ProductSizes {
  int64_t rows, inputs, outputs;
};
// Rows of one, rows that are no multiple of 8, one tile, and the widths of models.
constexpr ProductSizes kSizes[] = {{1, 16, 16},       {7, 48, 80},        {39, 128, 256},
                                   {64, 64, 16},      {1000, 1024, 4096}, {197, 768, 3072},
                                   {4096, 2048, 512}, {520, 5632, 2048},  {8, 4096, 48}};

Tensor drawn(at::IntArrayRef sizes, at::ScalarType type) { return at::randn(sizes).to(type).cuda(); }

// The weight as the CPU prunes it, on the GPU.
Tensor pruned_on_cpu(const Tensor& weight) { return pruned(weight.detach().cpu()).cuda(); }

// The largest error of an element of a b^T + bias, as a share of its bound: one rounding to the type of the result, and
// the order of the sum in fp32.
double share_of_bound(const Tensor& actual, const Tensor& a, const Tensor& b, const Tensor& bias = {}) {
  const auto wide = [](const Tensor& tensor) { return tensor.detach().to(at::kDouble); };
  Tensor expected = at::mm(wide(a), wide(b).t());
  const Tensor magnitudes = at::mm(wide(a).abs(), wide(b).abs().t());
  if (bias.defined()) expected += wide(bias);
  const double rounding = actual.scalar_type() == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
  const Tensor error = (wide(actual) - expected).abs();
  return (error / (expected.abs() * rounding + magnitudes * 0x1p-20 + 0x1p-24)).max().item<double>();
}

class SparseProduct : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(at::hasCUDA());
    at::manual_seed(21);
  }
  void TearDown() override { at::globalContext().setDeterministicAlgorithms(false, false); }
};

TEST_F(SparseProduct, EqualsTheProductInFp64) {
  for (const bool deterministic : {false, true}) {
    at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
    for (const at::ScalarType type : kTypes) {
      for (const auto& [rows, inputs, outputs] : kSizes) {
        SCOPED_TRACE(std::string(c10::toString(type)) + " " + std::to_string(rows) + " x " + std::to_string(inputs) +
                     " -> " + std::to_string(outputs) + (deterministic ? ", deterministic" : ""));
        const Tensor x = drawn({rows, inputs}, type), weight = drawn({outputs, inputs}, type);
        const Tensor bias = drawn({outputs}, type) * 30, kept = pruned_on_cpu(weight);
        const CompressedWeight compact = compressed(kOp, pruned(weight));
        const Tensor y = sparse_product(kOp, x, compact), biased = sparse_product(kOp, x, compact, bias);
        EXPECT_EQ(y.sizes(), at::IntArrayRef({rows, outputs}));
        EXPECT_EQ(y.scalar_type(), type);
        EXPECT_LT(share_of_bound(y, x, kept), 1);
        EXPECT_LT(share_of_bound(biased, x, kept, bias), 1) << "with a bias";
        EXPECT_TRUE(same_bits(sparse_product(kOp, x, compact), y)) << "other bits the second time";
        // Other weights and another bias are far from it, so the numbers above can fail.
        EXPECT_GT(share_of_bound(y, x, weight), 4);
        EXPECT_GT(share_of_bound(y, x, pruned_on_cpu(weight.flip(1)).flip(1).roll(1, 0)), 4);
        EXPECT_GT(share_of_bound(biased, x, kept), 1);
      }
    }
  }
}

// The transpose of a weight is compressed from the same tensor, and multiplies along its columns.
TEST_F(SparseProduct, TakesTheTransposeOfATransposableWeight) {
  for (const bool deterministic : {false, true}) {
    at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
    for (const at::ScalarType type : kTypes) {
      for (const auto& [rows, inputs, outputs] : kSizes) {
        SCOPED_TRACE(std::string(c10::toString(type)) + " " + std::to_string(rows) + " x " + std::to_string(inputs) +
                     " -> " + std::to_string(outputs) + (deterministic ? ", deterministic" : ""));
        const Tensor x = drawn({rows, inputs}, type), weight = drawn({inputs, outputs}, type);
        const Tensor kept = pruned(weight.cpu(), PruneMask::transposable).cuda();
        EXPECT_TRUE(same_bits(pruned(weight, PruneMask::transposable), kept));
        const CompressedWeight compact = compressed(kOp, kept, /*transpose=*/true);
        const Tensor y = sparse_product(kOp, x, compact);
        EXPECT_EQ(y.sizes(), at::IntArrayRef({rows, outputs}));
        EXPECT_LT(share_of_bound(y, x, kept.t()), 1);
        EXPECT_LT(share_of_bound(sparse_product(kOp, x, compressed(kOp, kept.t().contiguous())), x, kept.t()), 1);
        EXPECT_TRUE(same_bits(sparse_product(kOp, x, compact), y)) << "other bits the second time";
        EXPECT_GT(share_of_bound(y, x, weight.t()), 4);
      }
    }
  }
}

// Products of small whole numbers are exact, so the result has the bits of fp64.
TEST_F(SparseProduct, WholeNumbersAreExact) {
  for (const at::ScalarType type : kTypes) {
    const Tensor x = at::randn({77, 272}).round().clamp(-2, 2).to(type).cuda();
    const Tensor weight = at::randn({144, 272}).sign().to(type).cuda(), kept = pruned_on_cpu(weight);
    const Tensor y = sparse_product(kOp, x, compressed(kOp, pruned(weight)));
    EXPECT_TRUE(y.to(at::kDouble).equal(at::mm(x.to(at::kDouble), kept.to(at::kDouble).t())));
  }
}

// Every product is 16 (256 + 2^-4) = 4097, which 16 bits round to 4096. The bias is -4096.
TEST_F(SparseProduct, IsRoundedOnceWithItsBias) {
  for (const at::ScalarType type : kTypes) {
    const Tensor x = at::zeros({128, 64}, at::device(at::kCUDA).dtype(type)), weight = at::zeros_like(x);
    x.select(1, 0).fill_(256);
    x.select(1, 1).fill_(0x1p-4);
    weight.narrow(1, 0, 2).fill_(16);
    const Tensor bias = at::full({128}, -4096, x.options());
    EXPECT_TRUE(sparse_product(kOp, x, compressed(kOp, weight), bias).eq(1).all().item<bool>()) << type;
  }
}

TEST_F(SparseProduct, ReadsRowsOfOtherDistancesAndAddresses) {
  const Tensor wide = drawn({96, 264}, at::kBFloat16), weight = drawn({64, 128}, at::kBFloat16);
  const CompressedWeight compact = compressed(kOp, pruned(weight));
  const Tensor kept = pruned_on_cpu(weight);
  for (const Tensor& x : {wide.narrow(1, 0, 128), wide.narrow(1, 8, 128), wide.narrow(1, 3, 128),
                          wide.narrow(0, 1, 95).narrow(1, 16, 128), drawn({128, 96}, at::kBFloat16).t()}) {
    EXPECT_LT(share_of_bound(sparse_product(kOp, x, compact), x, kept), 1) << x.sizes() << " " << x.strides();
  }
}

TEST_F(SparseProduct, RefusesWhatTheLibraryDoesNotTake) {
  const auto words_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const c10::ValueError& error) {
      return error.what_without_backtrace();
    }
    return "nothing was refused";
  };
  const auto refusal_for = [&](at::IntArrayRef sizes, at::ScalarType type) {
    return words_of([&] { compressed(kOp, at::zeros(sizes, at::device(at::kCUDA).dtype(type))); });
  };
  for (const auto& [outputs, inputs] : {std::pair<int64_t, int64_t>{16, 40}, {40, 16}, {8, 16}, {16, 8}}) {
    EXPECT_EQ(refusal_for({outputs, inputs}, at::kBFloat16),
              "linear/cuda: a pruned weight is [" + std::to_string(outputs) + ", " + std::to_string(inputs) +
                  "], expected multiples of 16, which cuSPARSELt takes");
  }
  EXPECT_EQ(refusal_for({16, 16}, at::kFloat),
            "linear/cuda: a pruned weight is Float [16, 16], expected BFloat16 or Half [N, K]");
  const CompressedWeight compact = compressed(kOp, pruned(drawn({32, 64}, at::kHalf)));
  EXPECT_EQ(words_of([&] {
              sparse_product(kOp, drawn({8, 32}, at::kHalf), compact);
            }),
            "linear/cuda: x is Half [8, 32], expected Half [M, 64]");
  EXPECT_EQ(words_of([&] {
              sparse_product(kOp, drawn({8, 64}, at::kBFloat16), compact);
            }),
            "linear/cuda: x is BFloat16 [8, 64], expected Half [M, 64]");
  EXPECT_EQ(words_of([&] {
              sparse_product(kOp, drawn({8, 64}, at::kHalf), compact, drawn({16}, at::kHalf));
            }),
            "linear/cuda: the bias is not Half [32]");
}

// A replay reads the weights as they are then: it prunes, compresses and multiplies anew, and allocates nothing.
TEST_F(SparseProduct, ReplaysHaveTheBitsOfEagerCalls) {
  for (const at::ScalarType type : kTypes) {
    const Tensor x = drawn({520, 768}, type), weight = drawn({512, 768}, type), bias = drawn({512}, type);
    const auto step = [&] {
      const at::NoGradGuard no_grad;
      return sparse_linear(x, weight, bias, Level::cuda);
    };
    step();  // chooses the algorithm
    c10::cuda::device_synchronize();
    at::cuda::CUDAGraph graph;
    Tensor y;
    {
      const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
      graph.capture_begin();
      y = step();
      graph.capture_end();
    }
    for (int round = 0; round < 3; ++round) {
      weight.copy_(drawn({512, 768}, type));
      x.copy_(drawn({520, 768}, type));
      const Tensor eager = step();
      c10::cuda::device_synchronize();
      graph.replay();
      c10::cuda::device_synchronize();
      EXPECT_TRUE(same_bits(y, eager)) << type << ", replay " << round;
      EXPECT_LT(share_of_bound(y, x, pruned_on_cpu(weight), bias), 1);
    }
  }
}

TEST_F(SparseProduct, TheLayerHasItsValueAndGradients) {
  for (const PruneMask mask : {PruneMask::rows, PruneMask::transposable}) {
    for (const auto& [type, inputs] : {std::pair<at::ScalarType, int64_t>{at::kBFloat16, 256},
                                       {at::kHalf, 256},
                                       {at::kHalf, 264},  // no multiple of 16, so it is emulated
                                       {at::kFloat, 256}}) {
      const auto leaf = [&](at::IntArrayRef sizes) { return drawn(sizes, type).requires_grad_(); };
      const Tensor x = leaf({3, 13, inputs}), weight = leaf({96, inputs}), bias = leaf({96});
      const Tensor grad_y = drawn({3, 13, 96}, type), kept = pruned(weight.detach().cpu(), mask).cuda();
      const Tensor y = sparse_linear(x, weight, bias, Level::cuda, mask);
      y.backward(grad_y);
      const auto rows = [](const Tensor& tensor) { return tensor.detach().reshape({-1, tensor.size(-1)}); };
      EXPECT_EQ(y.sizes(), grad_y.sizes());
      EXPECT_LT(share_of_bound(rows(y), rows(x), kept, bias), 1) << type << " " << inputs;
      EXPECT_LT(share_of_bound(rows(x.grad()), rows(grad_y), kept.t()), 1) << type << " " << inputs;
      EXPECT_LT(share_of_bound(weight.grad(), rows(grad_y).t(), rows(x).t()), 1) << type << " " << inputs;
    }
  }
}

TEST_F(SparseProduct, ALostNumberIsSeen) {
  const Tensor x = drawn({40, 128}, at::kBFloat16), weight = drawn({256, 128}, at::kBFloat16);
  const auto product = [](const Tensor& a, const Tensor& b) {
    return sparse_product(kOp, a, compressed(kOp, pruned(b)));
  };
  const Tensor lost_x = x.clone(), lost_weight = weight.clone();
  lost_x[39].fill_(std::nan(""));
  EXPECT_TRUE(product(lost_x, weight)[39].isnan().all().item<bool>());
  EXPECT_FALSE(product(lost_x, weight).narrow(0, 0, 39).isnan().any().item<bool>());
  lost_weight[5][77] = std::nan("");
  EXPECT_TRUE(product(x, lost_weight).select(1, 5).isnan().all().item<bool>());
}

TEST_F(SparseProduct, NoRowsAreNoError) {
  EXPECT_EQ(sparse_product(kOp, drawn({0, 64}, at::kHalf), compressed(kOp, drawn({32, 64}, at::kHalf))).sizes(),
            at::IntArrayRef({0, 32}));
}

// What is predicted without a GPU is what the library asks for.
TEST_F(SparseProduct, ACompressedWeightHasThePredictedBytes) {
  for (const auto& [outputs, inputs] : {std::pair<int64_t, int64_t>{8192, 2048}, {2048, 8192}, {3072, 768}, {48, 80}}) {
    const Tensor weight = drawn({outputs, inputs}, at::kBFloat16);
    const auto bytes = [&](const Tensor& tensor) { return compressed(kOp, tensor).bytes.numel(); };
    std::printf("compressed %ld x %ld: %ld bytes\n", static_cast<long>(outputs), static_cast<long>(inputs),
                static_cast<long>(bytes(weight)));
    EXPECT_EQ(bytes(weight), bytes(at::empty({outputs, inputs}, at::device(at::kMeta).dtype(at::kBFloat16))));
  }
}

// The margin of predictions has room for what the library takes besides, as for the workspaces of cuBLASLt.
TEST_F(SparseProduct, TakesThePredictedMemory) {
  const auto layer = [](c10::DeviceType device) {
    const at::NoGradGuard no_grad;
    const auto options = at::device(device).dtype(at::kBFloat16);
    const Tensor x = at::zeros({4096, 2048}, options), weight = at::zeros({8192, 2048}, options);
    const Tensor y = sparse_linear(x, weight, /*bias=*/{}, Level::cuda);
  };
  int64_t predicted = 0;
  {
    Tracing tracing(c10::kCUDA);
    layer(c10::kMeta);
    predicted = tracing.peak_bytes();
  }
  layer(c10::kCUDA);  // chooses the algorithm
  const auto device = c10::cuda::current_device();
  auto* const allocator = c10::cuda::CUDACachingAllocator::get();
  const auto bytes = [&] { return allocator->getDeviceStats(device).allocated_bytes[0]; };
  const int64_t before = bytes().current;
  allocator->resetPeakStats(device);
  layer(c10::kCUDA);
  const int64_t taken = bytes().peak - before;
  std::printf("memory of a layer 4096 x 2048 -> 8192: %.1f MiB, predicted %.1f MiB\n",
              static_cast<double>(taken) / (1 << 20), static_cast<double>(predicted) / (1 << 20));
  EXPECT_GE(taken, predicted);
  EXPECT_LE(taken, predicted + (int64_t{32} << 20));
}

// The kernel has the bits of the CPU, which tests/modules/sparse_linear_test.cc compares with a sort.
TEST_F(SparseProduct, WeightsArePrunedAsOnTheCpu) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const std::vector<float> values = {0.0f, -0.0f, 1.0f, -1.0f, 1.5f, -6e-8f, infinity, -infinity, nan, -nan};
  std::vector<float> groups;
  for (size_t i = 0; i < 10000; ++i) {
    for (const size_t place : {1000, 100, 10, 1}) groups.push_back(values[i / place % 10]);
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Tensor wide = at::cat({at::tensor(groups).view({250, 160}), (at::randn({34, 160}) * 2).round()}).to(type);
    const Tensor odd = at::randn({33 * 12 + 1}).to(type);
    for (const Tensor& weight : {wide, wide.t().narrow(1, 3, 240), wide.narrow(0, 6, 256), wide.narrow(1, 3, 12),
                                 wide.narrow(0, 0, 0), odd.narrow(0, 1, 33 * 12).view({33, 12})}) {
      // Copies to a GPU do not keep addresses and strides, so these are made there again.
      const Tensor gpu = at::empty_strided(weight.sizes(), weight.strides(), weight.options().device(at::kCUDA));
      gpu.copy_(weight);
      EXPECT_TRUE(same_bits(pruned(gpu).cpu(), pruned(weight).contiguous())) << type << " " << weight.sizes();
      EXPECT_TRUE(kept_of_four(gpu).cpu().equal(kept_of_four(weight))) << type << " " << weight.sizes();
      if (weight.size(0) % 4 != 0) continue;
      const auto transposable = [](const Tensor& given) { return kept_of_four(given, PruneMask::transposable).cpu(); };
      EXPECT_TRUE(transposable(gpu).equal(transposable(weight))) << type << " " << weight.sizes();
    }
    const Tensor gpu = odd.cuda().narrow(0, 1, 33 * 12).view({33, 12});
    EXPECT_TRUE(same_bits(pruned(gpu).cpu(), pruned(odd.narrow(0, 1, 33 * 12).view({33, 12})))) << type;
  }
}

// The MLP of Llama 1B. What is timed is compared before: with fp64 where it fits, and with the dense product.
TEST_F(SparseProduct, RatesBesideDenseProducts) {
  for (const at::ScalarType type : kTypes) {
    for (const auto& [rows, inputs, outputs] : {ProductSizes{32768, 2048, 8192}, {32768, 8192, 2048}}) {
      const auto random = [&, type = type](at::IntArrayRef sizes) {
        return at::randn(sizes, at::device(at::kCUDA).dtype(type));
      };
      const Tensor x = random({rows, inputs}), weight = random({outputs, inputs}), kept = pruned(weight);
      const Tensor dense = at::empty({rows, outputs}, x.options());
      const CompressedWeight compact = compressed(kOp, kept);
      const auto multiply_dense = [&] { gemm(kOp, {.a = x, .b = kept.t(), .out = dense}); };
      const auto multiply_sparse = [&] { return sparse_product(kOp, x, compact); };
      multiply_dense();
      const Tensor sparse = multiply_sparse();
      for (const int64_t first : {int64_t{0}, rows - 256}) {
        ASSERT_LT(share_of_bound(sparse.narrow(0, first, 256), x.narrow(0, first, 256), pruned_on_cpu(weight)), 1);
      }
      const Tensor difference = (sparse - dense).to(at::kFloat);
      ASSERT_LT(difference.norm().item<double>(), 0x1p-8 * dense.to(at::kFloat).norm().item<double>());
      // The gradient of x: the transpose of a weight with a transposable mask.
      const Tensor tiles = pruned(weight, PruneMask::transposable), grad = random({rows, outputs});
      const Tensor dense_x = at::empty({rows, inputs}, x.options());
      const CompressedWeight transpose = compressed(kOp, tiles, /*transpose=*/true);
      const auto dense_gradient = [&] { gemm(kOp, {.a = grad, .b = tiles, .out = dense_x}); };
      const auto sparse_gradient = [&] { return sparse_product(kOp, grad, transpose); };
      dense_gradient();
      const Tensor error = (sparse_gradient() - dense_x).to(at::kFloat);
      ASSERT_LT(error.norm().item<double>(), 0x1p-8 * dense_x.to(at::kFloat).norm().item<double>());
      const std::vector<double> seconds = seconds_in_turn(
          {multiply_dense, multiply_sparse, [&] { compressed(kOp, kept); }, [&] { pruned(weight); }, dense_gradient,
           sparse_gradient, [&] { compressed(kOp, tiles, true); }, [&] { pruned(weight, PruneMask::transposable); }});
      const double work =
          2e-12 * static_cast<double>(rows) * static_cast<double>(inputs) * static_cast<double>(outputs);
      std::printf(
          "%s %ld x %ld -> %ld: dense %.0f TFLOP/s, sparse %.0f TFLOP/s, %.2f x; compression %.0f us, mask %.0f us; "
          "%.2f x with both\n",
          c10::toString(type), static_cast<long>(rows), static_cast<long>(inputs), static_cast<long>(outputs),
          work / seconds[0], work / seconds[1], seconds[0] / seconds[1], 1e6 * seconds[2], 1e6 * seconds[3],
          seconds[0] / (seconds[1] + seconds[2] + seconds[3]));
      std::printf(
          "  its gradient of x: dense %.0f TFLOP/s, sparse %.0f TFLOP/s, %.2f x; compression %.0f us, mask %.0f us; "
          "%.2f x with both\n",
          work / seconds[4], work / seconds[5], seconds[4] / seconds[5], 1e6 * seconds[6], 1e6 * seconds[7],
          seconds[4] / (seconds[5] + seconds[6] + seconds[7]));
    }
  }
}

}  // namespace
}  // namespace strata::kernels
