// SPDX-License-Identifier: MIT
// The shapes that ops are timed at: a table of common ones, and those of one configuration.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/proof/op_shape.h"
#include "trainer/trainer_config.h"

namespace strata::tools {

// An op at a shape, and how often a rank computes it in one micro-batch (optimizer: in one step).
struct UsedShape {
  kernels::OpShape shape;
  int64_t uses = 1;
};

// Large shapes, of which it is known what the fastest implementations reach; for GPUs.
std::vector<kernels::OpShape> common_shapes();
// Small ones, for CPUs.
std::vector<kernels::OpShape> small_shapes();

std::vector<UsedShape> shapes_of(const trainer::TrainerConfig& config);

// The key of `kernels:` that chooses the level of an op: rms_norm for add_rms_norm, activation for swiglu.
std::string_view kernels_key(std::string_view op);

}  // namespace strata::tools
