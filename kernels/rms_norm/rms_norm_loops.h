// SPDX-License-Identifier: MIT
// rms_norm_by_loops: level aten of rms_norm for few fp32 elements on CPUs, where starting the operators of ATen takes
// longer than their work. Their bits differ, and recomputed activations must be the same, so training does not use it.
#pragma once

#include "kernels/rms_norm/rms_norm.h"

namespace strata::kernels {

// True in inference mode if x is contiguous fp32 on the CPU and has at most 16,384 elements, as in a step of
// generation.
bool has_rms_norm_loops(const Tensor& x);

RmsNormOp::Forward rms_norm_by_loops;

}  // namespace strata::kernels
