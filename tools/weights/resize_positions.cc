// SPDX-License-Identifier: MIT
#include "tools/weights/resize_positions.h"

#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/cat.h>

namespace strata::tools {

at::Tensor resize_positions(const at::Tensor& positions, int64_t from_side, int64_t to_side) {
  const int64_t prefix = positions.size(0) - from_side * from_side, width = positions.size(1);
  const at::Tensor grid_1DHW =
      positions.slice(0, prefix).reshape({1, from_side, from_side, width}).permute({0, 3, 1, 2});
  const at::Tensor resized_1DHW = at::_upsample_bicubic2d_aa(grid_1DHW, {to_side, to_side}, /*align_corners=*/false);
  const at::Tensor resized = resized_1DHW.permute({0, 2, 3, 1}).reshape({to_side * to_side, width});
  return at::cat({positions.slice(0, 0, prefix), resized}).contiguous();
}

}  // namespace strata::tools
