// SPDX-License-Identifier: MIT
// UpdateDecision: what a step does with its gradients, once the ranks have added their losses and squares. All ranks
// decide the same, because they have the same sums. The host reads no value, so that a step can be captured.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trainer/config/trainer_config.h"
#include "trainer/step/loss_scale.h"

namespace strata::trainer {

// The places of the numbers that ranks add in a step. kCounted is there only if some items may not count.
namespace summed {
enum : int64_t { kLoss, kSquares, kStop, kCounted };
}

// The items of a step, over all ranks. Losses and gradients were divided by their number, which includes those that do
// not count.
struct StepItems {
  int64_t number = 0;
  bool may_not_count = false;  // some may not count, and the sums have kCounted
  bool may_be_bad = false;     // an item that does not count is a sample that could not be used
};

// Each is fp32, 0-dim, on the device.
struct UpdateDecision {
  Tensor loss;           // mean over the items that count
  Tensor gradient_norm;  // global, of the mean over the items that count, before clipping
  Tensor unusable;       // samples of the step that could not be used
  Tensor skipped;        // 1: the update is skipped; 0: it is applied
  Tensor overflowed;     // 1: it is skipped only because of the loss scale; see LossScale
  Tensor scale;          // factor on the gradients in the update
};

class UpdateDecider {
 public:
  UpdateDecider(double gradient_clip, OnNonfinite on_nonfinite, at::Device device);

  // Call it once a step. `sums` is fp32 and begins with the numbers of `summed`. `loss_scale` is null if the loss is
  // not scaled. The sums belong to the unscaled loss and its gradient.
  UpdateDecision decide(const Tensor& sums, const StepItems& items, const LossScale* loss_scale);
  // fp32, 0-dim: 1 after a skipped update that ends the run or starts a rollback. All later updates are skipped.
  const Tensor& halted() const { return halted_; }

 private:
  const double clip_;
  const bool halts_;  // a skipped update ends the run or starts a rollback
  Tensor halted_;
  const Tensor one_, zero_;
};

}  // namespace strata::trainer
