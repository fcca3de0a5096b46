// SPDX-License-Identifier: MIT
// The launchers of rms_norm.cu. No atomics: partial sums of fixed sets of rows, added up in a fixed order.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/norms/norm_rows.h"

namespace strata::kernels {

// Without mean, bias and its gradient; with a branch to add, add_rms_norm.
cudaError_t launch_rms_norm_forward(const NormForward& arguments, cudaStream_t stream);
cudaError_t launch_rms_norm_backward(const NormBackward& arguments, cudaStream_t stream);

}  // namespace strata::kernels
