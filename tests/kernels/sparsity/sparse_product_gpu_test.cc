// SPDX-License-Identifier: MIT
// Products of cuSPARSELt with pruned weights on a GPU, against products in fp64. Weights are pruned on the CPU for
// them, so the kernel that prunes is checked too.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "kernels/linear/sparse_linear.h"
#include "kernels/runtime/traced.h"
#include "kernels/sparsity/prune.h"
#include "kernels/sparsity/sparse_gemm.h"
#include "kernels/sparsity/sparse_products.h"
#include "tests/kernels/quantize/gpu_checks.h"
#include "tests/kernels/sparsity/sparse_checks.h"

namespace strata::kernels {
namespace {

// Rows of one, rows that are no multiple of 8, one tile, and the widths of models.
constexpr ProductSizes kSizes[] = {{1, 16, 16},       {7, 48, 80},        {39, 128, 256},
                                   {64, 64, 16},      {1000, 1024, 4096}, {197, 768, 3072},
                                   {4096, 2048, 512}, {520, 5632, 2048},  {8, 4096, 48}};

Tensor drawn(at::IntArrayRef sizes, at::ScalarType type) { return at::randn(sizes).to(type).cuda(); }

// Calls prove(rows, inputs, outputs) for all sizes, with algorithms that are timed and in deterministic mode.
template <class Prove>
void for_each_product(const Prove& prove) {
  for (const bool deterministic : {false, true}) {
    at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
    for (const auto& [rows, inputs, outputs] : kSizes) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(inputs) + " -> " + std::to_string(outputs) +
                   (deterministic ? ", deterministic" : ""));
      prove(rows, inputs, outputs);
    }
  }
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
  for_each_product([](int64_t rows, int64_t inputs, int64_t outputs) {
    const Tensor x = drawn({rows, inputs}, kSparseType), weight = drawn({outputs, inputs}, kSparseType);
    const Tensor bias = drawn({outputs}, kSparseType) * 30, kept = pruned_on_cpu(weight);
    const CompressedWeight compact = compressed(kOp, pruned(weight));
    const Tensor y = sparse_product(kOp, x, compact), biased = sparse_product(kOp, x, compact, bias);
    EXPECT_EQ(y.sizes(), at::IntArrayRef({rows, outputs}));
    EXPECT_EQ(y.scalar_type(), kSparseType);
    EXPECT_LT(share_of_bound(y, x, kept), 1);
    EXPECT_LT(share_of_bound(biased, x, kept, bias), 1) << "with a bias";
    EXPECT_TRUE(same_bits(sparse_product(kOp, x, compact), y)) << "other bits the second time";
    // Other weights and another bias are far from it, so the numbers above can fail.
    EXPECT_GT(share_of_bound(y, x, weight), 4);
    EXPECT_GT(share_of_bound(y, x, pruned_on_cpu(weight.flip(1)).flip(1).roll(1, 0)), 4);
    EXPECT_GT(share_of_bound(biased, x, kept), 1);
  });
}

// The transpose of a weight is compressed from the same tensor, and multiplies along its columns.
TEST_F(SparseProduct, TakesTheTransposeOfATransposableWeight) {
  for_each_product([](int64_t rows, int64_t inputs, int64_t outputs) {
    const Tensor x = drawn({rows, inputs}, kSparseType), weight = drawn({inputs, outputs}, kSparseType);
    const Tensor kept = pruned_on_cpu(weight, PruneMask::transposable);
    EXPECT_TRUE(same_bits(pruned(weight, PruneMask::transposable), kept));
    const CompressedWeight compact = compressed(kOp, kept, /*transpose=*/true);
    const Tensor y = sparse_product(kOp, x, compact);
    EXPECT_EQ(y.sizes(), at::IntArrayRef({rows, outputs}));
    EXPECT_LT(share_of_bound(y, x, kept.t()), 1);
    EXPECT_LT(share_of_bound(sparse_product(kOp, x, compressed(kOp, kept.t().contiguous())), x, kept.t()), 1);
    EXPECT_TRUE(same_bits(sparse_product(kOp, x, compact), y)) << "other bits the second time";
    EXPECT_GT(share_of_bound(y, x, weight.t()), 4);
  });
}

// Products of small whole numbers are exact, so the result has the bits of fp64.
TEST_F(SparseProduct, WholeNumbersAreExact) {
  const Tensor x = at::randn({77, 272}).round().clamp(-2, 2).to(kSparseType).cuda();
  const Tensor weight = at::randn({144, 272}).sign().to(kSparseType).cuda(), kept = pruned_on_cpu(weight);
  const Tensor y = sparse_product(kOp, x, compressed(kOp, pruned(weight)));
  EXPECT_TRUE(y.to(at::kDouble).equal(at::mm(x.to(at::kDouble), kept.to(at::kDouble).t())));
}

// Every product is 16 (256 + 2^-4) = 4097, which 16 bits round to 4096. The bias is -4096.
TEST_F(SparseProduct, IsRoundedOnceWithItsBias) {
  const Tensor x = at::zeros({128, 64}, at::device(at::kCUDA).dtype(kSparseType)), weight = at::zeros_like(x);
  x.select(1, 0).fill_(256);
  x.select(1, 1).fill_(0x1p-4);
  weight.narrow(1, 0, 2).fill_(16);
  const Tensor bias = at::full({128}, -4096, x.options());
  EXPECT_TRUE(sparse_product(kOp, x, compressed(kOp, weight), bias).eq(1).all().item<bool>());
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
            "linear/cuda: a pruned weight is Float [16, 16], expected BFloat16 [N, K]");
  const CompressedWeight compact = compressed(kOp, pruned(drawn({32, 64}, at::kBFloat16)));
  EXPECT_EQ(words_of([&] {
              sparse_product(kOp, drawn({8, 32}, at::kBFloat16), compact);
            }),
            "linear/cuda: x is BFloat16 [8, 32], expected BFloat16 [M, 64]");
  EXPECT_EQ(words_of([&] {
              sparse_product(kOp, drawn({8, 64}, at::kHalf), compact);
            }),
            "linear/cuda: x is Half [8, 64], expected BFloat16 [M, 64]");
  EXPECT_EQ(words_of([&] {
              sparse_product(kOp, drawn({8, 64}, at::kBFloat16), compact, drawn({16}, at::kBFloat16));
            }),
            "linear/cuda: the bias is not BFloat16 [32]");
}

// A replay reads the weights as they are then: it prunes, compresses and multiplies anew, and allocates nothing.
TEST_F(SparseProduct, ReplaysHaveTheBitsOfEagerCalls) {
  const int64_t rows = kFewestSparseRows + 8;
  const Tensor x = drawn({rows, 128}, kSparseType), weight = drawn({96, 128}, kSparseType),
               bias = drawn({96}, kSparseType);
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
    weight.copy_(drawn({96, 128}, kSparseType));
    x.copy_(drawn({rows, 128}, kSparseType));
    const Tensor eager = step();
    c10::cuda::device_synchronize();
    graph.replay();
    c10::cuda::device_synchronize();
    EXPECT_TRUE(same_bits(y, eager)) << "replay " << round;
    EXPECT_LT(share_of_bound(y, x, pruned_on_cpu(weight), bias), 1);
  }
}

TEST_F(SparseProduct, TheLayerHasItsValueAndGradients) {
  for (const PruneMask mask : {PruneMask::rows, PruneMask::transposable}) {
    for (const auto& [type, inputs] : {std::pair<at::ScalarType, int64_t>{at::kBFloat16, 256},
                                       {at::kHalf, 256},      // emulated
                                       {at::kBFloat16, 264},  // no multiple of 16, so it is emulated
                                       {at::kFloat, 256}}) {
      const auto leaf = [&](at::IntArrayRef sizes) { return drawn(sizes, type).requires_grad_(); };
      const int64_t rows_of_batch = kFewestSparseRows / 3 + 1;
      const Tensor x = leaf({3, rows_of_batch, inputs}), weight = leaf({96, inputs}), bias = leaf({96});
      const Tensor grad_y = drawn({3, rows_of_batch, 96}, type), kept = pruned_on_cpu(weight, mask);
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
  EXPECT_EQ(sparse_product(kOp, drawn({0, 64}, at::kBFloat16), compressed(kOp, drawn({32, 64}, at::kBFloat16))).sizes(),
            at::IntArrayRef({0, 32}));
}

// A machine without a GPU predicts the bytes for which the library asks.
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
    const Tensor x = at::zeros({kFewestSparseRows, 2048}, options), weight = at::zeros({8192, 2048}, options);
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
  std::printf("memory of a layer with 2048 inputs and 8192 outputs: %.1f MiB, predicted %.1f MiB\n",
              static_cast<double>(taken) / (1 << 20), static_cast<double>(predicted) / (1 << 20));
  EXPECT_GE(taken, predicted);
  EXPECT_LE(taken, predicted + (int64_t{32} << 20));
}

}  // namespace
}  // namespace strata::kernels
