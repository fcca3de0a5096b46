// SPDX-License-Identifier: MIT
// The three products of one linear layer in FP8, or in MXFP8 or NVFP4 on a GPU with products of blocks, without
// autograd. fp8_linear() and fp8_gated_linear() record them.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/quantize/delayed_scale.h"
#include "kernels/quantize/fp8_operand.h"
#include "kernels/quantize/number_format.h"

namespace strata::kernels {

using at::Tensor;

struct Fp8Layer {
  Tensor weight;  // [O, I]
  Tensor bias;    // [O] or undefined
  ProductFormats formats;
  DelayedScales scales = {};  // undefined: each scale follows from the tensor at hand

  Fp8Layer unrecorded() const { return {weight, bias, formats, scales.unrecorded()}; }
};

// The tensors that the gradients need besides the layer.
struct Fp8Saved {
  Tensor x_columns, x_scale;   // x as the operand of the gradient of the weight; undefined columns: none is needed
  Tensor weight_amax;          // Fp8Operand::amax of the weight; undefined if it was gathered as codes
  Tensor x_tensor_scale = {};  // Fp8Operand::tensor_scale of x
};

struct Fp8Product {
  Tensor y;  // [..., O]
  Fp8Saved saved;
};

// The layouts of x that a forward needs if its backward may follow: the gradient of a weight multiplies columns.
inline OperandLayouts layouts_for(const Tensor& weight) {
  return weight.requires_grad() ? OperandLayouts::both : OperandLayouts::rows;
}

// y = x weight^T + bias. `x_amax` is Fp8Operand::amax of x, or undefined.
Fp8Product fp8_product(const Tensor& x, const Tensor& x_amax, const Fp8Layer& layer, OperandLayouts layouts);

// Undefined: the gradient of x or of the weight if it is not needed, of the bias if there is none, and what was written
// into a gradient destination.
struct Fp8Gradients {
  Tensor x, weight, bias;
};
struct Fp8GradientsNeeded {
  bool x, weight;
};
Fp8Gradients fp8_gradients(const Tensor& grad_y, const Tensor& grad_y_amax, const Fp8Saved& saved,
                           const Fp8Layer& layer, Fp8GradientsNeeded needed);

}  // namespace strata::kernels
