// SPDX-License-Identifier: MIT
// Level cuda of embedding: calls the launchers of embedding.cu with tensors.
#include "kernels/embedding/embedding_cuda.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include <limits>

#include "kernels/cuda/gradient_output.h"
#include "kernels/cuda/launch.h"
#include "kernels/embedding/embedding.h"

namespace strata::kernels {

Tensor embedding_forward_cuda(const Tensor& indices, const Tensor& weight) {
  const Tensor rows = weight.contiguous(), picked = indices.contiguous();
  std::vector<int64_t> shape = indices.sizes().vec();
  shape.push_back(weight.size(1));
  const Tensor y = at::empty(shape, weight.options());
  const CudaType type = cuda_type(EmbeddingOp::kName, "weight", weight);
  launch("embedding_forward_cuda", weight, indices.numel(), weight.size(1), [&](cudaStream_t stream) {
    return launch_embedding_forward(type, y.data_ptr(), picked.data_ptr<int64_t>(), rows.data_ptr(), indices.numel(),
                                    weight.size(0), weight.size(1), stream);
  });
  return y;
}

Tensor embedding_backward_cuda(const Tensor& grad_y, const Tensor& indices, int64_t vocabulary,
                               const GradientDestination& into) {
  constexpr auto op = EmbeddingOp::kName;
  require(indices.numel() <= std::numeric_limits<int>::max(), op, Level::cuda, "indices are ", indices.sizes(),
          ", expected fewer than 2^31");
  require(vocabulary <= std::numeric_limits<unsigned>::max(), op, Level::cuda, "weight has ", vocabulary,
          " rows, expected fewer than 2^32");
  const Tensor gradients = grad_y.contiguous(), picked = indices.contiguous();
  const int64_t width = grad_y.size(-1);
  const GradientOutput target(op, {vocabulary, width}, grad_y.options(), into);
  const EmbeddingBackward arguments = {.type = cuda_type(op, "grad_y", grad_y),
                                       .grad_y = gradients.data_ptr(),
                                       .indices = picked.data_ptr<int64_t>(),
                                       .gradient = target.data(),
                                       .gradient_type = target.type(),
                                       .add = target.add(),
                                       .count = indices.numel(),
                                       .vocabulary = vocabulary,
                                       .width = width};
  const c10::DeviceGuard device(grad_y.device());
  // cub says how much it needs to sort only where there is a GPU. Traced without one, these bytes are missing: about 8
  // for each index.
  const Tensor workspace = at::empty({embedding_backward_workspace(arguments)}, grad_y.options().dtype(at::kByte));
  launch("embedding_backward_cuda", grad_y, indices.numel(), width,
         [&](cudaStream_t stream) { return launch_embedding_backward(arguments, workspace.data_ptr(), stream); });
  return target.accumulate();
}

}  // namespace strata::kernels
