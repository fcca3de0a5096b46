// SPDX-License-Identifier: MIT
// The launchers of layer_norm.cu. No atomics: partial sums of fixed sets of rows, added up in a fixed order.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/norms/norm_rows.h"

namespace strata::kernels {

// With a branch to add, add_layer_norm.
cudaError_t launch_layer_norm_forward(const NormForward& arguments, cudaStream_t stream);
cudaError_t launch_layer_norm_backward(const NormBackward& arguments, cudaStream_t stream);

// Without a branch; the backward reads bias.
cudaError_t launch_layer_norm_gelu_tanh_forward(const NormForward& arguments, cudaStream_t stream);
cudaError_t launch_layer_norm_gelu_tanh_backward(const NormBackward& arguments, cudaStream_t stream);

}  // namespace strata::kernels
