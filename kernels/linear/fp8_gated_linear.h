// SPDX-License-Identifier: MIT
// The first half of a gated MLP in FP8 on a GPU: a linear layer and swiglu, at level cuda.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/activation/activation_kind.h"
#include "kernels/linear/fp8_layer.h"
#include "kernels/quantize/number_format.h"
#include "kernels/runtime/level.h"
#include "kernels/swiglu/swiglu.h"

namespace strata::kernels {

// True if fp8_gated_linear() computes a layer of these formats and then op swiglu at `level`. The scales must be of the
// tensor, because swiglu finds no largest magnitudes of rows and columns.
constexpr bool can_fuse_gated_fp8(Level level, const ProductFormats& layer) {
  return level == Level::cuda && layer.values.scaling == Scaling::tensor;
}

// x [..., I], layer of 2F outputs -> y [..., F] = swiglu(fp8_linear(x, layer), kind), bit for bit, and its gradients
// are the same too. The kernels of swiglu find two largest magnitudes: in y, for the fp8_linear() that follows,
// and in the gradient of the product. Both matrices are operands of FP8, which are then read once. A forward
// without gradients and with delayed scales returns an undefined amax, because it records none. Saves the product
// besides what fp8_linear() saves. If autograd does not keep the graph, the gradient of the product takes its memory.
// Throws a ValueError unless scales are of the tensor.
WithAmax fp8_gated_linear(const Tensor& x, const Fp8Layer& layer, Activation kind);

}  // namespace strata::kernels
