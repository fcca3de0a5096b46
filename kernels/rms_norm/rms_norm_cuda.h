// SPDX-License-Identifier: MIT
// The launchers of rms_norm.cu. They use no atomics: each block sums a fixed set of rows, and partial sums are added in
// a fixed order.
#pragma once

#include "kernels/norms/norm_rows.h"

namespace strata::kernels {

// Mean, bias and its gradient are null. If `branch` is given, this is add_rms_norm. There is one of each Code.
namespace hopper {
NormLauncher<NormForward> launch_rms_norm_forward;
NormLauncher<NormBackward> launch_rms_norm_backward;
}  // namespace hopper
namespace portable {
NormLauncher<NormForward> launch_rms_norm_forward;
NormLauncher<NormBackward> launch_rms_norm_backward;
}  // namespace portable

}  // namespace strata::kernels
