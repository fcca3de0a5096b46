// SPDX-License-Identifier: MIT
// Level triton of cross_entropy: calls the kernels of cross_entropy_triton.py with tensors.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/cross_entropy_triton_kernels.h"
#include "kernels/cuda/multiprocessors.h"

namespace strata::kernels {

// Writes the gradient over the logits; the caller gives them up if it needs a gradient.
CrossEntropyOp::Output cross_entropy_forward_triton(const Tensor& logits, const Tensor& targets, const Tensor& scale,
                                                    const CrossEntropyOp::Rule& rule, bool with_gradient) {
  const int64_t rows = logits.size(0), width = logits.size(1);
  const Tensor memory = logits.detach().contiguous();
  const Tensor row_losses = at::empty({rows}, scale.options()), loss = at::empty({}, scale.options());
  launch_cross_entropy_forward_triton(memory, targets.contiguous(), scale, row_losses, width, rule.ignore_index,
                                      rule.label_smoothing, with_gradient, rows);
  launch_cross_entropy_total_triton(row_losses, scale, loss, rows);
  if (!with_gradient) return {loss, {}};
  // Makes autograd report an error if the logits were saved for another backward.
  memory.unsafeGetTensorImpl()->bump_version();
  return {loss, memory};
}

// Sixteen programs of 128 threads for each multiprocessor, or fewer. With more of them a factor of 1, for which they
// only start and end, would take longer.
Tensor cross_entropy_backward_triton(const Tensor& grad_loss, const Tensor& logit_gradient, bool in_place) {
  const Tensor result = in_place ? logit_gradient : at::empty(logit_gradient.sizes(), logit_gradient.options());
  const int64_t programs = std::min<int64_t>((result.numel() + 2047) / 2048, 16 * multiprocessors());
  launch_cross_entropy_backward_triton(logit_gradient, grad_loss, result, result.numel(), in_place, programs);
  return result;
}

}  // namespace strata::kernels
