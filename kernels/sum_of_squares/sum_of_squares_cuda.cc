// SPDX-License-Identifier: MIT
// Level cuda of sum_of_squares: calls the launchers of sum_of_squares.cu with up to 160 tensors per launch.
#include "kernels/sum_of_squares/sum_of_squares_cuda.h"

#include <ATen/ops/empty.h>

#include "kernels/cuda/launch.h"
#include "kernels/sum_of_squares/sum_of_squares.h"

namespace strata::kernels {

Tensor sum_of_squares_forward_cuda(const std::vector<Tensor>& gradients) {
  const CudaType type = cuda_type(SumOfSquaresOp::kName, "a gradient", gradients[0]);
  std::vector<Tensor> flat;
  std::vector<SquaredTensors> launches(1);
  int64_t pieces = 0;
  for (const Tensor& gradient : gradients) {
    flat.push_back(gradient.contiguous());
    if (gradient.numel() == 0) continue;
    if (launches.back().count == SquaredTensors::kMax) launches.emplace_back();
    SquaredTensors& tensors = launches.back();
    tensors.data[tensors.count] = flat.back().data_ptr();
    tensors.elements[tensors.count] = gradient.numel();
    tensors.first_piece[tensors.count++] = tensors.pieces;
    const int64_t own = (gradient.numel() + kSquaredPiece - 1) / kSquaredPiece;
    tensors.pieces += own;
    pieces += own;
  }
  const Tensor partials = at::empty({pieces}, gradients[0].options().dtype(at::kDouble));
  const Tensor total = at::empty({}, gradients[0].options().dtype(at::kFloat));
  double* next = partials.data_ptr<double>();
  for (const SquaredTensors& tensors : launches) {
    launch("sum_of_squares_cuda", total, tensors.count, tensors.pieces,
           [&](cudaStream_t stream) { return launch_sums_of_squares(type, tensors, next, stream); });
    next += tensors.pieces;
  }
  launch("sum_of_squares_cuda", total, 1, pieces, [&](cudaStream_t stream) {
    return launch_sum_of_partials(total.data_ptr<float>(), partials.data_ptr<double>(), pieces, stream);
  });
  return total;
}

}  // namespace strata::kernels
