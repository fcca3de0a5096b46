// SPDX-License-Identifier: MIT
// Traced ops take the workspaces of a GPU with another number of multiprocessors: a row of partial sums for each block.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "kernels/cuda/multiprocessors.h"
#include "kernels/norms/norm_rows.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

constexpr int64_t kRows = 4096, kWidth = 1024, kRow = 4 * kWidth;  // bytes of a row of partial sums
constexpr int64_t kBlocksOfTriton = 8192 / kWidth;                 // on a multiprocessor

// Returns the most bytes that a backward of rms_norm takes in bf16.
int64_t traced_bytes(RmsNormOp::Backward backward, int count) {
  set_multiprocessors(count);
  Tracing tracing(c10::kCUDA);
  const auto options = at::device(at::kMeta).dtype(at::kBFloat16);
  const Tensor x = at::empty({kRows, kWidth}, options), weight = at::empty({kWidth}, options);
  const Tensor rstd = at::empty({kRows, 1}, options.dtype(at::kFloat));
  tracing.reset_peak();
  const int64_t before = tracing.current_bytes();
  backward(x, {}, x, weight, rstd, {});
  set_multiprocessors(0);
  return tracing.peak_bytes() - before;
}

TEST(Workspaces, AreThoseOfTheNumberOfMultiprocessors) {
  const int64_t cuda = traced_bytes(rms_norm_backward_cuda, 132);
  EXPECT_EQ(cuda, kRows * kWidth * 2 + 132 * kRow + kWidth * 2);
  for (const int count : {78, 108, 170}) {
    EXPECT_EQ(traced_bytes(rms_norm_backward_cuda, count) - cuda, (count - 132) * kRow);
    EXPECT_EQ(traced_bytes(rms_norm_backward_triton, count) - traced_bytes(rms_norm_backward_triton, 132),
              (count - 132) * kRow * kBlocksOfTriton);
  }
}

TEST(Workspaces, OfNormsHaveARowForEachBlockOfAWave) {
  EXPECT_EQ(norm_backward_partials(100'000, 1, 132), 132);
  EXPECT_EQ(norm_backward_partials(100'000, 3, 132), 396);
  EXPECT_EQ(norm_backward_partials(100'000, 1, 108), 108);
  EXPECT_EQ(norm_backward_partials(100'000, 2, 170), 340);
  EXPECT_EQ(norm_backward_partials(107, 1, 108), 107) << "no more blocks than rows";
  EXPECT_EQ(norm_backward_partials(120, 1, 108), 108);
}

}  // namespace
}  // namespace strata::kernels
