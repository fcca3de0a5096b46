// SPDX-License-Identifier: MIT
// Level cuda of linear_cross_entropy: products as in linear, the loss and the logits' gradient as in cross_entropy.
#include <c10/cuda/CUDAGuard.h>

#include "kernels/gemm.h"
#include "kernels/launch_check.h"
#include "kernels/linear_cross_entropy/head_in_chunks.h"

namespace strata::kernels {
namespace {

constexpr auto kOp = LinearCrossEntropyOp::kName;

void logits_cuda(const Tensor& logits, const Tensor& rows, const Tensor& weight) {
  gemm(kOp, {.a = rows, .b = weight.t(), .out = logits});
}

void hidden_gradient_cuda(const Tensor& hidden, const Tensor& gradient, const Tensor& weight) {
  gemm(kOp, {.a = gradient, .b = weight, .out = hidden});
}

// Sums over the chunks are fp32: the product adds to them as they lie.
void weight_gradient_cuda(const Tensor& weight_sum, const Tensor& gradient, const Tensor& rows, bool add) {
  gemm(kOp, {.a = gradient.t(), .b = rows, .out = weight_sum, .add = add});
}

// GPT-2 has 50257 classes. Rows that do not begin at multiples of 16 bytes take products and loss twice as long, a
// whole step of GPT-2 124M 222 ms instead of 120 (H200).
constexpr int64_t kClassesMultiple = 64;

}  // namespace

LinearCrossEntropyOp::Output linear_cross_entropy_forward_cuda(const Tensor& hidden, const Tensor& weight,
                                                               const Tensor& targets, const Tensor& scale,
                                                               const CrossEntropyOp::Rule& rule, bool with_gradient) {
  const c10::cuda::CUDAGuard device(hidden.device());
  cuda_type(kOp, "hidden", hidden);
  require(hidden.size(1) > 0, kOp, Level::cuda, "hidden is ", hidden.sizes(),
          ", expected a last dimension of at least 1");
  return head_in_chunks(gemm_operand(hidden.detach()), gemm_operand(weight.detach()), targets, scale, rule,
                        with_gradient, {logits_cuda, hidden_gradient_cuda, weight_gradient_cuda, kClassesMultiple},
                        CrossEntropyOp::kKernels.cuda.forward, rows_at_a_time(hidden, weight));
}

}  // namespace strata::kernels
