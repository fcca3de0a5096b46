// SPDX-License-Identifier: MIT
// The example of docs/kernels.md: rms_norm as a library of its own, forward and backward, for CPUs and GPUs.
#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>

#include "kernels/candidate.h"
#include "kernels/rms_norm/rms_norm.h"

using at::Tensor;
using strata::kernels::RmsNormOp;

static Tensor wide(const Tensor& tensor) { return tensor.to(at::kFloat); }

static RmsNormOp::Output forward(const Tensor& x, const Tensor&, const Tensor& weight, double eps) {
  const Tensor rstd = at::rsqrt(wide(x).square().mean(-1, /*keepdim=*/true) + eps);
  return {(wide(x) * rstd * wide(weight)).to(x.scalar_type()), /*sum=*/{}, rstd};
}

static RmsNormOp::Gradient backward(const Tensor& grad_y, const Tensor&, const Tensor& x, const Tensor& weight,
                                    const Tensor& rstd, const strata::kernels::GradientDestination& into) {
  const Tensor normed = wide(x) * rstd, weighted = wide(grad_y) * wide(weight);
  const Tensor grad_x = rstd * (weighted - normed * (weighted * normed).mean(-1, /*keepdim=*/true));
  const Tensor grad_weight = (wide(grad_y) * normed).reshape({-1, x.size(-1)}).sum(0);
  if (!into.into.defined()) return {grad_x.to(x.scalar_type()), grad_weight.to(weight.scalar_type())};
  into.add ? into.into.add_(grad_weight) : into.into.copy_(grad_weight);
  return {grad_x.to(x.scalar_type()), /*weight=*/{}};
}

STRATA_CANDIDATES(strata::kernels::candidate<RmsNormOp>(forward, backward))
