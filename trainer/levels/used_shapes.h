// SPDX-License-Identifier: MIT
// The shapes at which a configuration calls each op.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/runtime/op_shape.h"
#include "trainer/config/trainer_config.h"
#include "trainer/data/graphs/graph_sizes.h"

namespace strata::trainer {

// An op at a shape, and how often a rank computes it in one micro-batch (optimizer: in one step).
struct UsedShape {
  kernels::OpShape shape;
  int64_t in_layers = 0, outside = 0;  // in all layers together; before and behind them

  int64_t uses() const { return in_layers + outside; }
};

// The head and the loss of a language model are one op where `kernels.linear_cross_entropy` has a level, and two
// otherwise. `graph`: HasGraphSizes::graph_sizes(), which only graph networks need; without it, theirs are the ops
// alone.
std::vector<UsedShape> used_shapes(const TrainerConfig& config, const GraphSizes& graph);
// The same with these as one op or two, whatever `kernels.linear_cross_entropy` says.
std::vector<UsedShape> used_shapes(const TrainerConfig& config, const GraphSizes& graph, bool head_and_loss_are_one);

// The names of all ops and the key of `kernels:` that chooses the level of each, also of a model whose shapes are not
// known before its data are read.
std::map<std::string, std::string> used_ops(const TrainerConfig& config);

}  // namespace strata::trainer
