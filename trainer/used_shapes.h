// SPDX-License-Identifier: MIT
// The shapes at which a configuration calls each op.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/proof/op_shape.h"
#include "trainer/trainer_config.h"

namespace strata::trainer {

// An op at a shape, and how often a rank computes it in one micro-batch (optimizer: in one step).
struct UsedShape {
  kernels::OpShape shape;
  int64_t in_layers = 0, outside = 0;  // in all layers together; before and behind them

  int64_t uses() const { return in_layers + outside; }
};

std::vector<UsedShape> used_shapes(const TrainerConfig& config);

}  // namespace strata::trainer
