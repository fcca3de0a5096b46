// SPDX-License-Identifier: MIT
// Shared by tests of FP8 linear layers on a GPU: the operands of a product in fp64, and the layers that are tried.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/reshape.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/linear/fp8_products.h"
#include "kernels/linear/quantized_linear.h"
#include "kernels/quantize/quantize.h"

namespace strata::kernels {

struct LayerSizes {
  std::vector<int64_t> tokens;
  int64_t inputs, outputs;
};

// The numbers that quantize() makes of the rows of a matrix: fp64, on the CPU.
inline Tensor rounded(const Tensor& matrix, QuantizedFormat format) {
  const Tensor rows = matrix.detach().cpu().contiguous();
  return dequantize(quantize(rows, format, Rounding::nearest_even, /*key=*/{}), format, at::kFloat).to(at::kDouble);
}

inline Tensor rows_of(const Tensor& tensor) { return tensor.detach().reshape({-1, tensor.size(-1)}); }

// Tries layers of all sizes in three types, with and without a bias. Each must multiply in FP8.
inline void try_layers(const std::vector<LayerSizes>& all_sizes, const ProductFormats& formats,
                       const std::function<void(const LayerSizes&, at::ScalarType, bool has_bias)>& expect_products) {
  for (const LayerSizes& sizes : all_sizes) {
    ASSERT_TRUE(multiplies_in_fp8(formats, Level::cuda, sizes.inputs, sizes.outputs));
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kFloat}) {
      for (const bool has_bias : {false, true}) {
        SCOPED_TRACE(std::string(c10::toString(type)) + " " + std::to_string(sizes.tokens.back()) + " tokens, " +
                     std::to_string(sizes.inputs) + " -> " + std::to_string(sizes.outputs) +
                     (has_bias ? " with bias" : ""));
        expect_products(sizes, type, has_bias);
      }
    }
  }
}

}  // namespace strata::kernels
