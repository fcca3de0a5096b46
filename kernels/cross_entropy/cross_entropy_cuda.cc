// SPDX-License-Identifier: MIT
// Level cuda of cross_entropy: calls the launchers of cross_entropy.cu with tensors.
#include "kernels/cross_entropy/cross_entropy_cuda.h"

#include <ATen/ops/empty.h>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cuda/is_on_hopper.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/waves.h"

namespace strata::kernels {

// Writes the gradient over the logits if these are contiguous.
CrossEntropyOp::Output cross_entropy_of_classes_cuda(const Tensor& logits, const Tensor& targets, const Tensor& scale,
                                                     const CrossEntropyOp::Rule& rule, bool with_gradient,
                                                     int64_t classes) {
  const int64_t rows = logits.size(0), columns = logits.size(1);
  const Tensor rows_of_logits = logits.detach().contiguous(), row_targets = targets.contiguous();
  const Tensor row_losses = at::empty({rows}, logits.options().dtype(at::kFloat));
  const Tensor loss = at::empty({}, logits.options().dtype(at::kFloat));
  const CrossEntropyArguments arguments = {.type = cuda_type(CrossEntropyOp::kName, "logits", logits),
                                           .logits = rows_of_logits.data_ptr(),
                                           .gradient = with_gradient ? rows_of_logits.data_ptr() : nullptr,
                                           .targets = row_targets.data_ptr<int64_t>(),
                                           .scale = scale.data_ptr<float>(),
                                           .row_losses = row_losses.data_ptr<float>(),
                                           .loss = loss.data_ptr<float>(),
                                           .rows = rows,
                                           .columns = columns,
                                           .classes = classes,
                                           .ignore_index = rule.ignore_index,
                                           .label_smoothing = static_cast<float>(rule.label_smoothing),
                                           .waves = waves_for(double(logits.nbytes()) * (with_gradient ? 2 : 1))};
  const auto launcher = is_on_hopper(logits) ? hopper::launch_cross_entropy : portable::launch_cross_entropy;
  launch("cross_entropy_forward_cuda", logits, rows, columns,
         [&](cudaStream_t stream) { return launcher(arguments, stream); });
  if (!with_gradient) return {loss, {}};
  // Makes autograd report an error if the logits were saved for another backward.
  rows_of_logits.unsafeGetTensorImpl()->bump_version();
  return {loss, rows_of_logits};
}

CrossEntropyOp::Output cross_entropy_forward_cuda(const Tensor& logits, const Tensor& targets, const Tensor& scale,
                                                  const CrossEntropyOp::Rule& rule, bool with_gradient) {
  return cross_entropy_of_classes_cuda(logits, targets, scale, rule, with_gradient, logits.size(1));
}

// LibTorch's multiplication takes 3.6 times as long (65536 x 50304 in bf16: 11.0 ms), because the factor is fp32 and
// the gradient is not.
Tensor cross_entropy_backward_cuda(const Tensor& grad_loss, const Tensor& logit_gradient, bool in_place) {
  const Tensor gradient = logit_gradient.contiguous(), factor = grad_loss.to(at::kFloat);
  const Tensor result = in_place ? gradient : at::empty(gradient.sizes(), gradient.options());
  const CudaType type = cuda_type(CrossEntropyOp::kName, "logits", gradient);
  const auto launcher =
      is_on_hopper(gradient) ? hopper::launch_cross_entropy_backward : portable::launch_cross_entropy_backward;
  launch("cross_entropy_backward_cuda", gradient, gradient.size(0), gradient.size(1), [&](cudaStream_t stream) {
    return launcher(type, result.data_ptr(), gradient.data_ptr(), factor.const_data_ptr<float>(), gradient.numel(),
                    stream);
  });
  return result;
}

}  // namespace strata::kernels
