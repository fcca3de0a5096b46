// SPDX-License-Identifier: MIT
// rms_norm and add_rms_norm, forward and backward.
#include "kernels/cuda/code.h"
#include "kernels/norms/norm_backward.cuh"
#include "kernels/norms/norm_forward.cuh"
#include "kernels/rms_norm/rms_norm_cuda.h"

namespace strata::kernels {

using RmsNorm = Norm<kThisCode, /*kCentered=*/false>;

namespace STRATA_THIS_CODE {

cudaError_t launch_rms_norm_forward(const NormForward& arguments, cudaStream_t stream) {
  return launch_norm_forward<RmsNorm>(arguments, stream);
}

cudaError_t launch_rms_norm_backward(const NormBackward& arguments, cudaStream_t stream) {
  return launch_norm_backward<RmsNorm>(arguments, stream);
}

}  // namespace STRATA_THIS_CODE
}  // namespace strata::kernels
