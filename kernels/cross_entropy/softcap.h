// SPDX-License-Identifier: MIT
// The soft cap of logits, as in Gemma 2 (2024): y = softcap * tanh(x / softcap), between -softcap and softcap.
#pragma once

#include <ATen/core/Tensor.h>

namespace strata::kernels {

using at::Tensor;

// In all functions values are computed in fp32 or wider and rounded once. Parts of rows are computed one after another,
// so the temporary tensors are small.

// Returns the capped values of x [..., V], differentiable; softcap 0 is none. If a gradient is needed, x is saved for
// backward, which may write the gradient over it. Otherwise the result is written over x. So the caller must not use x
// afterwards.
Tensor capped_logits(const Tensor& x, double softcap);

// Writes the capped values of x [N, V] into y, which may be x.
void softcap_into(const Tensor& y, const Tensor& x, double softcap);

// Writes grad_y * (1 - tanh(x / softcap)^2) into grad_x, which may be grad_y or x. All are [N, V].
void softcap_gradient_into(const Tensor& grad_x, const Tensor& grad_y, const Tensor& x, double softcap);

}  // namespace strata::kernels
