// SPDX-License-Identifier: MIT
// Collects the shapes at which a model calls its ops.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/levels/used_shapes.h"

namespace strata::trainer {

// Equal shapes are one, with the sum of their uses.
class ShapeCollector {
 public:
  void in_layers(kernels::OpShape shape, int64_t uses) { of(std::move(shape)).in_layers += uses; }
  void outside(kernels::OpShape shape) { ++of(std::move(shape)).outside; }
  std::vector<UsedShape> take() { return std::move(all_); }

 private:
  UsedShape& of(kernels::OpShape shape) {
    const auto same =
        std::find_if(all_.begin(), all_.end(), [&](const UsedShape& used) { return used.shape == shape; });
    if (same != all_.end()) return *same;
    return all_.emplace_back(UsedShape{std::move(shape)});
  }
  std::vector<UsedShape> all_;
};

}  // namespace strata::trainer
