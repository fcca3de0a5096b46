// SPDX-License-Identifier: MIT
// The `optimizer:` section.
#pragma once

#include <array>
#include <variant>

#include "configs/limits.h"

namespace strata::trainer {

struct AdamW {
  std::array<double, 2> betas = {0.9, 0.95};
  double epsilon = 1e-8;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("betas", betas, "decay of the first and of the second moment", configs::kBelowOne);
    fields.add("epsilon", epsilon, "added to the root of the second moment", configs::kPositive);
  }
};

struct OptimizerConfig {
  std::variant<AdamW> type = {};
  double learning_rate = 3e-4;
  double weight_decay = 0.1;
  double gradient_clip = 1.0;
  double moving_average = 0;

  template <class Fields>
  void describe(Fields& fields) {
    fields.choose("type", type, {"adamw"}, "kind of optimizer");
    fields.require("learning_rate", learning_rate, "peak, reached at the end of the warmup", configs::kPositive);
    fields.add("weight_decay", weight_decay, "decoupled; matrices and embeddings only", configs::kNonNegative);
    fields.add("gradient_clip", gradient_clip, "largest global norm of the gradients; 0: no clipping",
               configs::kNonNegative);
    fields.add("moving_average", moving_average,
               "decay of an exponential moving average of the weights, which is evaluated, exported and sampled from "
               "instead of them; 0: none",
               configs::kBelowOne);
  }
};

}  // namespace strata::trainer
