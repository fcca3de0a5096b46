// SPDX-License-Identifier: MIT
// Weights of a checkpoint as the linear layers of its run multiply with them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>

#include "kernels/sparsity/prune_group.h"
#include "trainer/config/trainer_config.h"

namespace strata::tools {

class PrunedWeights {
 public:
  PrunedWeights() = default;  // no weight is pruned
  // Prunes weights as the products of this step of the run do. Before sparsity.from_step no weight is pruned.
  PrunedWeights(const trainer::TrainerConfig& config, int64_t step);

  // True if a transposable mask prunes the parameter. Such a mask has groups of four rows.
  bool sees_whole(const std::string& name) const;
  // Returns whole rows of the fp32 parameter `name`, in their sizes, with zeros where `sparsity` of the run prunes
  // them. `rows` is the whole parameter [rows, width] if sees_whole(). The mask is made in the type in which the run
  // computes, whose rounding may make magnitudes equal.
  at::Tensor operator()(const std::string& name, const at::Tensor& rows) const;

 private:
  kernels::PruneMask mask_ = kernels::PruneMask::rows;
  std::map<std::string, at::ScalarType> computed_in_;  // compute type of the pruned weights, by name
};

}  // namespace strata::tools
