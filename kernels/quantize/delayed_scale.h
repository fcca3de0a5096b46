// SPDX-License-Identifier: MIT
// DelayedScale: the scale of a tensor follows from its largest magnitudes in earlier steps. So one kernel can read the
// tensor once, divide by the scale, and find the largest magnitude for later steps. Source: the delayed scaling of
// NVIDIA's Transformer Engine, with a margin of 0 and the largest magnitude of the history.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/quantize/number_format.h"

namespace strata::kernels {

// Both are fp32 [1] on the device of the tensor that is rounded. If both are undefined, the scale is not delayed.
struct DelayedScale {
  at::Tensor past;  // the largest magnitude in the history; 0: none yet, and the scale follows from the tensor at hand
  at::Tensor present;  // is raised to the largest magnitude of the tensor; undefined: nothing is recorded
};

// Throws a ValueError that begins with the name of the function if the scale does not fit x and its scaling.
void check_delayed(std::string_view function, const at::Tensor& x, Scaling scaling, const DelayedScale& delayed);

// A linear layer has a delayed scale for each of its three operands.
struct DelayedScales {
  DelayedScale x, weight, gradient;  // gradient: of the output

  // The same scales for a forward that records nothing.
  DelayedScales unrecorded() const { return {{x.past, {}}, {weight.past, {}}, {gradient.past, {}}}; }
};

}  // namespace strata::kernels
