// SPDX-License-Identifier: MIT
// Runs forward and backward of the micro-batches of one step. Every backward pass of training starts here.
#pragma once

#include <ATen/TensorOperators.h>

#include <vector>

#include "trainer/model/sharded_model.h"
#include "trainer/report/phase_timer.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {

// Returns the sum of the losses of this rank times `factor` (fp32, 0-dim), detached. Gradients are the gradients of
// this number. Afterwards they are complete and parameters are resharded.
// `enter(Phase::forward)` and `enter(Phase::backward)` return an object that lives as long as the phase.
// `after_backward` is called before the remaining gradients are reduced.
template <class Enter, class AfterBackward>
Tensor accumulate_gradients(const Task& task, ShardedModel& model, const std::vector<MicroBatch>& batches,
                            const Tensor& factor, const Tensor& dropout_key, const Enter& enter,
                            const AfterBackward& after_backward) {
  Tensor sum;
  for (size_t i = 0; i < batches.size(); ++i) {
    Tensor loss;
    {
      [[maybe_unused]] const auto& scope = enter(Phase::forward);
      // Gathers the groups that stay gathered for the whole step. Profiles count this as a part of the forward.
      if (i == 0) model.begin_step();
      model.set_last_micro_batch(i + 1 == batches.size());
      loss = task.loss(batches[i], factor, dropout_key);
    }
    [[maybe_unused]] const auto& scope = enter(Phase::backward);
    loss.backward();
    after_backward();
    model.finish_backward();
    sum = sum.defined() ? sum + loss.detach() : loss.detach();
  }
  model.reshard();
  return sum;
}

}  // namespace strata::trainer
