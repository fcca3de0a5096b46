// SPDX-License-Identifier: MIT
#include "trainer/step/update_decision.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sqrt.h>

namespace strata::trainer {
namespace {

Tensor scalar(double value, at::Device device) {
  return at::scalar_tensor(value, at::TensorOptions(at::kFloat).device(device));
}

}  // namespace

UpdateDecider::UpdateDecider(double gradient_clip, OnNonfinite on_nonfinite, at::Device device)
    : clip_(gradient_clip),
      halts_(on_nonfinite != OnNonfinite::skip),
      halted_(scalar(0, device)),
      one_(scalar(1, device)),
      zero_(scalar(0, device)) {}

UpdateDecision UpdateDecider::decide(const Tensor& sums, const StepItems& items, const LossScale* loss_scale) {
  Tensor loss = sums.select(0, summed::kLoss), norm = at::sqrt(sums.select(0, summed::kSquares)), unusable = zero_;
  Tensor correction = one_;  // items / items that count
  if (items.may_not_count) {
    const auto all_items = static_cast<double>(items.number);
    if (items.may_be_bad) unusable = all_items - sums.select(0, summed::kCounted);
    correction = all_items / at::clamp_min(sums.select(0, summed::kCounted), 1);
    loss = loss * correction;
    norm = norm * correction;
  }
  // The loss may not be finite although every gradient is.
  Tensor skipped = 1 - at::isfinite(norm + loss).to(at::kFloat);
  const Tensor overflowed = loss_scale != nullptr ? loss_scale->overflowed(loss, skipped) : zero_;
  if (halts_) {
    // No later update is applied, because on GPUs the host learns of it one step later.
    halted_.copy_(at::maximum(skipped - overflowed, halted_));
    skipped = at::maximum(skipped, halted_);
  }
  // The scale is computed as by torch.nn.utils.clip_grad_norm_.
  Tensor scale = clip_ > 0 ? at::clamp_max(clip_ / (norm + 1e-6), 1.0) : one_;
  if (items.may_not_count) scale = scale * correction;
  if (loss_scale != nullptr) scale = scale / loss_scale->value();
  return {loss, norm, unusable, skipped, overflowed, scale};
}

}  // namespace strata::trainer
