// SPDX-License-Identifier: MIT
// dropout: y = x / (1 - p) for elements that are kept, 0 for others. The mask is computed from a counter and never
// stored. With x viewed as [rows, columns], an element is kept if the 32-bit hash of (key, site, first_row + row,
// column) is at least p * 2^32: kernels/runtime/element_hash.h. So the mask does not depend on how rows are distributed
// over calls or ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// dropout(x, probability, key, site, first_row, level): y = x / (1 - p) where hash(key, site, row, column) >= p 2^32,
// else 0
//
// x [..., columns], key int64 [1] on the device of x -> y with the shape and dtype of x. `site` identifies the layer
// and op, and first_row is the global row of x's first row. Saves key for backward and no mask. Throws a ValueError if
// p is not in [0, 1) or key does not match.
Tensor dropout(const Tensor& x, double probability, const Tensor& key, int64_t site, int64_t first_row, Level level);

struct DropoutOp {
  static constexpr std::string_view kName = "dropout";
  struct MaskSeed {
    double probability;
    Tensor key;
    int64_t site, first_row;
  };
  using Forward = Tensor(const Tensor& x, const MaskSeed& mask);
  using Backward = Tensor(const Tensor& grad_y, const MaskSeed& mask);
  static const KernelTable<DropoutOp> kKernels;
};

DropoutOp::Forward dropout_forward_triton;
DropoutOp::Forward dropout_forward_cuda;

using DropoutOps = OpList<DropoutOp>;

}  // namespace strata::kernels
