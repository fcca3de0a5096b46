// SPDX-License-Identifier: MIT
// Level cuda of global_norm: calls the launchers of global_norm.cu with up to 160 tensors per launch.
#include "kernels/global_norm/global_norm_cuda.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/cuda/launch_check.h"
#include "kernels/global_norm/global_norm.h"

namespace strata::kernels {

Tensor global_norm_forward_cuda(const std::vector<Tensor>& gradients) {
  const c10::cuda::CUDAGuard device(gradients[0].device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const CudaType type = cuda_type(GlobalNormOp::kName, "a gradient", gradients[0]);
  std::vector<Tensor> flat;
  std::vector<SquaredTensors> launches(1);
  int64_t pieces = 0;
  for (const Tensor& gradient : gradients) {
    flat.push_back(gradient.contiguous());
    if (gradient.numel() == 0) continue;
    if (launches.back().count == SquaredTensors::kMax) launches.emplace_back();
    SquaredTensors& launch = launches.back();
    launch.data[launch.count] = flat.back().data_ptr();
    launch.elements[launch.count] = gradient.numel();
    launch.first_piece[launch.count++] = launch.pieces;
    const int64_t own = (gradient.numel() + kSquaredPiece - 1) / kSquaredPiece;
    launch.pieces += own;
    pieces += own;
  }
  const Tensor partials = at::empty({pieces}, gradients[0].options().dtype(at::kDouble));
  const Tensor total = at::empty({}, gradients[0].options().dtype(at::kFloat));
  double* next = partials.data_ptr<double>();
  for (const SquaredTensors& launch : launches) {
    check_launch(launch_sums_of_squares(type, launch, next, stream), "global_norm_cuda", launch.count, launch.pieces);
    next += launch.pieces;
  }
  check_launch(launch_sum_of_partials(total.data_ptr<float>(), partials.data_ptr<double>(), pieces, stream),
               "global_norm_cuda", 1, pieces);
  return total;
}

}  // namespace strata::kernels
