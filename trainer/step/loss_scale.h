// SPDX-License-Identifier: MIT
// The scale of the loss in the backward of float16. It doubles after many steps without an overflow and halves after
// each overflow, as in torch.amp.GradScaler (Micikevicius et al., "Mixed Precision Training", 2018, section 3.2).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trainer/config/precision_config.h"

namespace strata::trainer {

using at::Tensor;

// Its tensors live on the device, so that no step waits for the host and a captured step updates them. All ranks
// compute the same scale from the same numbers, so the scale is not communicated.
class LossScale {
 public:
  // The state that a checkpoint keeps.
  struct State {
    double scale = 1;
    int64_t finite_steps = 0;  // since the scale changed last
  };

  LossScale(const LossScaling& config, at::Device device);

  const Tensor& value() const { return value_; }  // fp32, 0-dim

  // Returns 1 if the scale is taken for the cause of gradients that are not finite, otherwise 0. A scale of 1 or less
  // is not the cause. `loss` is the unscaled loss, and `skipped` is 1 if it or a gradient is not finite.
  Tensor overflowed(const Tensor& loss, const Tensor& skipped) const;
  // Call it once a step. The scale shrinks if `overflowed` is 1. It stays as it is if the update was skipped for
  // another reason: `skipped` is 1 alone. Otherwise the step counts for its growth.
  void update(const Tensor& overflowed, const Tensor& skipped);

  // It waits for the device.
  State state() const;
  void restore(const State& state);

 private:
  const LossScaling config_;
  Tensor value_;
  Tensor finite_steps_;  // int32, 0-dim
};

}  // namespace strata::trainer
