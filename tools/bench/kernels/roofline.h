// SPDX-License-Identifier: MIT
// The measured limits of a device: bytes copied per second, and FLOPs per second of a large matrix product.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/runtime/op_shape.h"

namespace strata::tools {

struct Roofline {
  double bytes_per_second, flops_per_second;

  // Returns the least time in seconds that the work can take.
  double least_seconds(const kernels::Work& work) const;
};

// Measures flops_per_second with a matrix product of `dtype`.
Roofline measure_roofline(at::Device device, at::ScalarType dtype);

}  // namespace strata::tools
