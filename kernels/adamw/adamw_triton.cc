// SPDX-License-Identifier: MIT
// Level triton of adamw: calls the kernel of adamw_triton.py with tensors.
#include <cmath>

#include "kernels/adamw/adamw.h"
#include "kernels/adamw/adamw_triton_kernels.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {

void adamw_forward_triton(Tensor& master, Tensor& first_moment, Tensor& second_moment, const Tensor& gradient,
                          Tensor& compute_copy, const UpdateScalars& scalars, const AdamwOptions& options) {
  require(master.is_contiguous() && first_moment.is_contiguous() && second_moment.is_contiguous() &&
              (!compute_copy.defined() || compute_copy.is_contiguous()),
          AdamwOp::kName, Level::triton, "master, moments or compute_copy have gaps, expected contiguous memory");
  launch_adamw_triton(master, first_moment, second_moment, gradient.contiguous(), compute_copy, scalars.learning_rate,
                      scalars.step, scalars.gradient_scale, scalars.skip, options.beta1, options.beta2,
                      /*log_beta1=*/std::log(options.beta1), /*log_beta2=*/std::log(options.beta2), options.epsilon,
                      options.weight_decay, /*has_copy=*/compute_copy.defined(), /*count=*/master.numel());
}

}  // namespace strata::kernels
