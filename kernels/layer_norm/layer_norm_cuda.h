// SPDX-License-Identifier: MIT
// The launchers of layer_norm.cu. They use no atomics: each block sums a fixed set of rows, and partial sums are added
// in a fixed order.
#pragma once

#include "kernels/norms/norm_rows.h"

namespace strata::kernels {

// If `branch` is given, launch_layer_norm_forward is add_layer_norm. The launch with gelu_tanh takes none, and its
// backward reads bias. There is one of each Code.
namespace hopper {
NormLauncher<NormForward> launch_layer_norm_forward;
NormLauncher<NormBackward> launch_layer_norm_backward;
NormLauncher<NormForward> launch_layer_norm_gelu_tanh_forward;
NormLauncher<NormBackward> launch_layer_norm_gelu_tanh_backward;
}  // namespace hopper
namespace portable {
NormLauncher<NormForward> launch_layer_norm_forward;
NormLauncher<NormBackward> launch_layer_norm_backward;
NormLauncher<NormForward> launch_layer_norm_gelu_tanh_forward;
NormLauncher<NormBackward> launch_layer_norm_gelu_tanh_backward;
}  // namespace portable

}  // namespace strata::kernels
