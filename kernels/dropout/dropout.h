// SPDX-License-Identifier: MIT
// dropout: y = x / (1 - p) where the element is kept, 0 where it is not; the mask is computed from a counter, never
// stored. With x seen as [rows, columns], the hash of (key, site, first_row + row, column) is 32 bits of integer
// arithmetic, and an element is kept when hash >= p * 2^32: the mask does not depend on how rows are spread over calls
// or ranks.
//   mix(h) = h ^= h >> 16; h *= 0x7feb352d; h ^= h >> 15; h *= 0x846ca68b; h ^= h >> 16     (modulo 2^32)
//   row_hash = mix(row >> 32 ^ mix(row & m ^ mix(site ^ mix(key >> 32 ^ mix(key & m ^ 0x9e3779b9)))))
//   hash = mix(row_hash ^ mix(column + 0x9e3779b9)), with m = 2^32 - 1
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// x [..., columns]; key int64 [1] on x's device; site says which layer and op; first_row is the global row of x's first
// row.
Tensor dropout(const Tensor& x, double probability, const Tensor& key, int64_t site, int64_t first_row, Level level);

// y = residual + dropout(x)
Tensor add_dropout(const Tensor& residual, const Tensor& x, double probability, const Tensor& key, int64_t site,
                   int64_t first_row, Level level);

struct DropoutOp {
  static constexpr std::string_view kName = "dropout";
  struct Mask {
    double probability;
    Tensor key;
    int64_t site, first_row;
  };
  using Forward = Tensor(const Tensor& x, const Mask& mask);
  using Backward = Tensor(const Tensor& grad_y, const Mask& mask);
  static const KernelTable<DropoutOp> kKernels;
};

DropoutOp::Forward dropout_forward_triton;
DropoutOp::Forward dropout_forward_cuda;

struct AddDropoutOp {
  static constexpr std::string_view kName = "add_dropout";
  using Forward = Tensor(const Tensor& residual, const Tensor& x, const DropoutOp::Mask& mask);
  // The gradient of x; that of the residual is grad_y itself.
  using Backward = Tensor(const Tensor& grad_y, const DropoutOp::Mask& mask);
  static const KernelTable<AddDropoutOp> kKernels;
};

AddDropoutOp::Forward add_dropout_forward_triton;
AddDropoutOp::Forward add_dropout_forward_cuda;

}  // namespace strata::kernels
