// SPDX-License-Identifier: MIT
// The launchers of rms_norm.cu. They use no atomics: each block sums a fixed set of rows, and partial sums are added in
// a fixed order.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/norms/norm_rows.h"

namespace strata::kernels {

// Mean, bias and its gradient are null. If `branch` is given, this is add_rms_norm.
cudaError_t launch_rms_norm_forward(const NormForward& arguments, cudaStream_t stream);
cudaError_t launch_rms_norm_backward(const NormBackward& arguments, cudaStream_t stream);

}  // namespace strata::kernels
