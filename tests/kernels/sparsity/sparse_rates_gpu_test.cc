// SPDX-License-Identifier: MIT
// Prints the rates of sparse products beside dense ones, on a GPU.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "kernels/cuda/gemm.h"
#include "kernels/sparsity/prune.h"
#include "kernels/sparsity/sparse_gemm.h"
#include "tests/kernels/quantize/gpu_checks.h"
#include "tests/kernels/sparsity/sparse_checks.h"

namespace strata::kernels {
namespace {

// The MLP of Llama 1B. What is timed is compared before: with fp64 where it fits, and with the dense product.
TEST(SparseRates, BesideDenseProducts) {
  ASSERT_TRUE(at::hasCUDA());
  at::manual_seed(22);
  for (const auto& [rows, inputs, outputs] : {ProductSizes{32768, 2048, 8192}, {32768, 8192, 2048}}) {
    const auto random = [&](at::IntArrayRef sizes) {
      return at::randn(sizes, at::device(at::kCUDA).dtype(kSparseType));
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
    const double work = 2e-12 * static_cast<double>(rows) * static_cast<double>(inputs) * static_cast<double>(outputs);
    std::printf(
        "%s %ld x %ld -> %ld: dense %.0f TFLOP/s, sparse %.0f TFLOP/s, %.2f x; compression %.0f us, mask %.0f us; "
        "%.2f x with both\n",
        c10::toString(kSparseType), static_cast<long>(rows), static_cast<long>(inputs), static_cast<long>(outputs),
        work / seconds[0], work / seconds[1], seconds[0] / seconds[1], 1e6 * seconds[2], 1e6 * seconds[3],
        seconds[0] / (seconds[1] + seconds[2] + seconds[3]));
    std::printf(
        "  its gradient of x: dense %.0f TFLOP/s, sparse %.0f TFLOP/s, %.2f x; compression %.0f us, mask %.0f us; "
        "%.2f x with both\n",
        work / seconds[4], work / seconds[5], seconds[4] / seconds[5], 1e6 * seconds[6], 1e6 * seconds[7],
        seconds[4] / (seconds[5] + seconds[6] + seconds[7]));
  }
}

}  // namespace
}  // namespace strata::kernels
