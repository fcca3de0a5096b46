// SPDX-License-Identifier: MIT
// What a device can do at most, measured: bytes copied and FLOPs of a large matrix product, per second.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/proof/op_shape.h"

namespace strata::tools {

struct Roofline {
  double bytes_per_second, flops_per_second;

  // The time below which the work cannot be done.
  double least_seconds(const kernels::Work& work) const;
};

// flops_per_second is that of products of `dtype`.
Roofline measure_roofline(at::Device device, at::ScalarType dtype);

}  // namespace strata::tools
