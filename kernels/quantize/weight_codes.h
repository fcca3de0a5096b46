// SPDX-License-Identifier: MIT
// WeightCodes: the codes of a weight whose values a rank does not have. Ranks that share the weight gather its codes
// instead of its values.
#pragma once

#include <ATen/core/Tensor.h>

namespace strata::kernels {

using at::Tensor;

struct WeightCodes {
  Tensor codes;  // uint8, in the shape of the weight; undefined: the weight has values
  Tensor scale;  // fp32 [1] at a 16-byte boundary: value = (number of the code) * scale
};

// Registers what stands for the values of `weight`, which must be a leaf. Nothing may read the values then. The data of
// the codes may be absent until an op runs that multiplies the weight. Call clear_weight_codes() before the weight
// ends.
void set_weight_codes(const Tensor& weight, WeightCodes codes);
void clear_weight_codes(const Tensor& weight);
// Detached tensors and aliases of a weight have no codes.
WeightCodes weight_codes(const Tensor& weight);

}  // namespace strata::kernels
