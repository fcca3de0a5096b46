// SPDX-License-Identifier: MIT
// A library with kernels of rms_norm and add_rms_norm. They are right, unless STRATA_TEST_MISTAKE names a mistake.
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros_like.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/candidate.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/runtime/call.h"

namespace {

using at::Tensor;
using strata::kernels::AddRmsNormOp;
using strata::kernels::candidate;
using strata::kernels::GradientDestination;
using strata::kernels::RmsNormOp;

bool mistake(std::string_view name) {
  const char* chosen = std::getenv("STRATA_TEST_MISTAKE");
  return chosen != nullptr && name == chosen;
}

// Returns fp32, or fp64 of fp64.
Tensor wide(const Tensor& tensor) { return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat); }

bool needs_gradients(const Tensor& x, const Tensor& weight) { return x.requires_grad() || weight.requires_grad(); }

// Returns 0 times the element behind each row. It is NaN if that element is.
Tensor behind_rows(const Tensor& x) {
  std::vector<int64_t> sizes = x.sizes().vec();
  ++sizes.back();
  return wide(x.as_strided(sizes, x.strides())).narrow(-1, x.size(-1), 1) * 0.0;
}

// Returns the result of the first call with this key.
Tensor kept(std::uintptr_t key, const Tensor& result) {
  static std::map<std::pair<std::uintptr_t, std::vector<int64_t>>, Tensor> results;
  const Tensor& first = results.try_emplace({key, result.sizes().vec()}, result).first->second;
  return first.scalar_type() == result.scalar_type() ? first.clone() : result;
}

// Returns what a kernel that reads rows one after another finds at the address of x.
Tensor as_if_contiguous(const Tensor& x) {
  return x.as_strided(x.sizes(), at::empty_like(x, at::MemoryFormat::Contiguous).strides());
}

RmsNormOp::Output forward(const Tensor& x, const Tensor& branch, const Tensor& weight, double eps) {
  if (mistake("refuses all")) strata::kernels::require(false, "rms_norm", strata::kernels::kLibraryLevel, "no");
  if (mistake("refuses odd widths")) {
    strata::kernels::require(x.size(-1) % 8 == 0, "rms_norm", strata::kernels::kLibraryLevel, "D is ", x.size(-1),
                             ", expected a multiple of 8");
  }
  const Tensor sum = branch.defined() ? at::add(x, branch) : Tensor();
  const Tensor input = mistake("ignores strides") ? as_if_contiguous(x) : sum.defined() ? sum : x;
  const Tensor rstd = at::rsqrt(at::mean(wide(input) * wide(input), -1, /*keepdim=*/true) + eps);
  Tensor normed = wide(input) * rstd;
  if (mistake("keeps the norm in 16 bits")) normed = wide(normed.to(at::kBFloat16));
  Tensor y = normed * wide(weight);
  if (mistake("scales by 1.02")) y = y * 1.02;
  if (mistake("is wrong without gradients") && !needs_gradients(x, weight)) y = y * 1.02;
  if (mistake("reads behind rows") && !x.is_contiguous()) y = y + behind_rows(x);
  if (mistake("keeps results of an address")) y = kept(reinterpret_cast<std::uintptr_t>(x.data_ptr()), y);
  if (mistake("keeps results of large sizes") && x.numel() > 100'000) y = kept(0, y);
  if (mistake("loses NaN")) y = at::nan_to_num(y);
  static int calls = 0;
  if (mistake("changes its bits") && ++calls % 2 == 0) y = y * (1.0 + (x.element_size() == 2 ? 0x1p-12 : 0x1p-22));
  if (mistake("returns fp32")) return {y.to(at::kFloat), sum, rstd};
  if (mistake("returns the input")) return {x, sum, rstd};
  if (mistake("changes its input") && x.numel() > 0) x.select(0, 0).mul_(2.0);
  const Tensor result = at::empty_like(input, at::MemoryFormat::Contiguous);
  const int64_t dropped = mistake("drops the last row") && x.size(0) > 1 ? 1 : 0;
  result.narrow(0, 0, x.size(0) - dropped).copy_(y.narrow(0, 0, x.size(0) - dropped));
  return {result, sum, rstd};
}

RmsNormOp::Gradient backward(const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x, const Tensor& weight,
                             const Tensor& rstd, const GradientDestination& into) {
  if (mistake("refuses the backward"))
    strata::kernels::require(false, "rms_norm", strata::kernels::kLibraryLevel, "no");
  const Tensor normed = wide(x) * rstd, weighted = wide(grad_y) * wide(weight);
  Tensor grad_x = rstd * (weighted - normed * at::mean(weighted * normed, -1, /*keepdim=*/true));
  if (grad_sum.defined() && !mistake("forgets the gradient of the sum")) grad_x = grad_x + grad_sum;
  Tensor terms = (wide(grad_y) * normed).reshape({-1, x.size(-1)});
  if (mistake("forgets a row of the weight's gradient") && terms.size(0) > 1)
    terms = terms.narrow(0, 1, terms.size(0) - 1);
  Tensor grad_weight = terms.sum(0);
  if (mistake("keeps gradients of a size")) grad_weight = kept(grad_y.numel(), grad_weight);
  if (mistake("changes the gradient of its result")) grad_y.mul_(2.0);
  if (!into.into.defined()) return {grad_x.to(x.scalar_type()), grad_weight.to(weight.scalar_type())};
  if (mistake("writes behind the destination")) {
    into.into.as_strided({1}, {1}, into.into.storage_offset() + into.into.numel()).fill_(5.0);
  }
  if (into.add && !mistake("overwrites a sum of gradients")) {
    into.into.add_(grad_weight);
  } else {
    into.into.copy_(grad_weight);
  }
  return {grad_x.to(x.scalar_type()), {}};
}

}  // namespace

STRATA_CANDIDATES(candidate<RmsNormOp>(forward, backward), mistake("names an op twice")
                                                               ? candidate<RmsNormOp>(forward, backward)
                                                               : candidate<AddRmsNormOp>(forward, backward))
