// SPDX-License-Identifier: MIT
// layer_norm, add_layer_norm and layer_norm_gelu_tanh, forward and backward.
#include "kernels/cuda/code.h"
#include "kernels/layer_norm/layer_norm_cuda.h"
#include "kernels/norms/norm_backward.cuh"
#include "kernels/norms/norm_forward.cuh"

namespace strata::kernels {

using LayerNorm = Norm<kThisCode, /*kCentered=*/true>;
using LayerNormGeluTanh = Norm<kThisCode, /*kCentered=*/true, Activation::gelu_tanh>;

namespace STRATA_THIS_CODE {

cudaError_t launch_layer_norm_forward(const NormForward& arguments, cudaStream_t stream) {
  return launch_norm_forward<LayerNorm>(arguments, stream);
}

cudaError_t launch_layer_norm_backward(const NormBackward& arguments, cudaStream_t stream) {
  return launch_norm_backward<LayerNorm>(arguments, stream);
}

cudaError_t launch_layer_norm_gelu_tanh_forward(const NormForward& arguments, cudaStream_t stream) {
  return launch_norm_forward<LayerNormGeluTanh>(arguments, stream);
}

cudaError_t launch_layer_norm_gelu_tanh_backward(const NormBackward& arguments, cudaStream_t stream) {
  return launch_norm_backward<LayerNormGeluTanh>(arguments, stream);
}

}  // namespace STRATA_THIS_CODE
}  // namespace strata::kernels
