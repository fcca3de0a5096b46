// SPDX-License-Identifier: MIT
#include "trainer/step/loss_scale.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

namespace strata::trainer {

LossScale::LossScale(const LossScaling& config, at::Device device)
    : config_(config),
      value_(at::scalar_tensor(config.initial, at::TensorOptions(at::kFloat).device(device))),
      finite_steps_(at::scalar_tensor(0, at::TensorOptions(at::kInt).device(device))) {}

Tensor LossScale::overflowed(const Tensor& loss, const Tensor& skipped) const {
  return skipped * at::isfinite(loss) * value_.gt(1);
}

void LossScale::update(const Tensor& overflowed, const Tensor& skipped) {
  Tensor next = value_.clone(), steps = finite_steps_.clone();
  at::_amp_update_scale_(next, steps, overflowed, config_.growth, config_.backoff, config_.growth_interval);
  const Tensor stays = skipped.gt(overflowed);
  value_.copy_(at::where(stays, value_, next));
  finite_steps_.copy_(at::where(stays, finite_steps_, steps));
}

LossScale::State LossScale::state() const { return {value_.item<float>(), finite_steps_.item<int32_t>()}; }

void LossScale::restore(const State& state) {
  value_.fill_(state.scale);
  finite_steps_.fill_(state.finite_steps);
}

}  // namespace strata::trainer
