// SPDX-License-Identifier: MIT
// Level cuda of adamw: calls the launcher of adamw.cu with tensors.
#include "kernels/adamw/adamw_cuda.h"

#include "kernels/adamw/adamw.h"
#include "kernels/cuda/launch.h"

namespace strata::kernels {

void adamw_forward_cuda(Tensor& master, Tensor& first_moment, Tensor& second_moment, const Tensor& gradient,
                        Tensor& compute_copy, const UpdateScalars& scalars, const AdamwOptions& options) {
  constexpr auto op = AdamwOp::kName;
  require(master.scalar_type() == at::kFloat, op, Level::cuda, "master is ", master.scalar_type(), ", expected Float");
  for (const Tensor& written : {master, first_moment, second_moment, compute_copy}) {
    if (!written.defined()) continue;  // there is no copy if layers compute in fp32
    require(written.is_contiguous(), op, Level::cuda, "a tensor that is written is ", written.sizes(), " with strides ",
            written.strides(), ", expected contiguous");
  }
  const Tensor gradients = gradient.contiguous();
  const bool copies = compute_copy.defined();
  const AdamwArguments arguments = {
      .master = master.data_ptr<float>(),
      .first_moment = first_moment.data_ptr<float>(),
      .second_moment = second_moment.data_ptr<float>(),
      .gradient = gradients.data_ptr(),
      .gradient_type = cuda_type(op, "gradient", gradient),
      .compute_copy = copies ? compute_copy.data_ptr() : nullptr,
      .copy_type = copies ? cuda_type(op, "compute_copy", compute_copy) : CudaType::float32,
      .learning_rate = scalars.learning_rate.data_ptr<float>(),
      .step = scalars.step.data_ptr<float>(),
      .gradient_scale = scalars.gradient_scale.data_ptr<float>(),
      .skip = scalars.skip.data_ptr<float>(),
      .beta1 = options.beta1,
      .beta2 = options.beta2,
      .epsilon = options.epsilon,
      .weight_decay = options.weight_decay,
      .count = master.numel()};
  launch("adamw_cuda", master, 1, master.numel(), [&](cudaStream_t stream) { return launch_adamw(arguments, stream); });
}

}  // namespace strata::kernels
