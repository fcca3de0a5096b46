// SPDX-License-Identifier: MIT
// What tests of sparse products on a GPU compare: sizes, pruned weights and the error of a product.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/mm.h>

#include <cstdint>

#include "kernels/sparsity/prune.h"

namespace strata::kernels {

inline constexpr at::ScalarType kSparseType = at::kBFloat16;
inline constexpr const char* kOp = "linear";

struct ProductSizes {
  int64_t rows, inputs, outputs;
};

// The weight as the CPU prunes it, on the GPU.
inline Tensor pruned_on_cpu(const Tensor& weight, PruneMask mask = PruneMask::rows) {
  return pruned(weight.detach().cpu(), mask).cuda();
}

// The largest error of an element of a b^T + bias, as a share of its bound: one rounding to the type of the result, and
// the order of the sum in fp32.
inline double share_of_bound(const Tensor& actual, const Tensor& a, const Tensor& b, const Tensor& bias = {}) {
  const auto wide = [](const Tensor& tensor) { return tensor.detach().to(at::kDouble); };
  Tensor expected = at::mm(wide(a), wide(b).t());
  const Tensor magnitudes = at::mm(wide(a).abs(), wide(b).abs().t());
  if (bias.defined()) expected += wide(bias);
  const double rounding = actual.scalar_type() == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
  const Tensor error = (wide(actual) - expected).abs();
  return (error / (expected.abs() * rounding + magnitudes * 0x1p-20 + 0x1p-24)).max().item<double>();
}

}  // namespace strata::kernels
