// SPDX-License-Identifier: MIT
// The `optimizer:` section.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "configs/limits.h"

namespace strata::trainer {

struct AdamW {
  static constexpr std::string_view kOp = "adamw";  // the op of `kernels:` that updates weights
  static constexpr int64_t kMoments = 2;            // fp32 tensors that are kept for each shard of weights, at most 2

  std::array<double, 2> betas = {0.9, 0.95};
  double epsilon = 1e-8;

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("betas", betas,
               "coefficients of the running averages of the gradient and of its square, as in torch.optim.AdamW",
               configs::kBelowOne);
    fields.add("epsilon", epsilon, "term added to the denominator, as eps of torch.optim.AdamW",
               configs::kEpsilonOfOptimizer);
  }
};

struct OptimizerConfig {
  std::variant<AdamW> type = {};
  double learning_rate = 3e-4;
  double weight_decay = 0.1;
  double gradient_clip = 1.0;
  double moving_average = 0;

  std::string_view op() const {
    return std::visit([](const auto& optimizer) { return optimizer.kOp; }, type);
  }
  int64_t moments() const {
    return std::visit(
        []<class Type>(const Type&) {
          static_assert(0 <= Type::kMoments && Type::kMoments <= 2, "Optimizer::ShardState has two");
          return Type::kMoments;
        },
        type);
  }

  template <class Fields>
  void describe(Fields& fields) {
    fields.choose("type", type, {"adamw"}, "type of the optimizer");
    fields.require("learning_rate", learning_rate, "peak learning rate, reached at the end of the warmup",
                   configs::kPositive);
    fields.add("weight_decay", weight_decay, "decoupled weight decay; applied to matrices and embeddings only",
               configs::kNonNegative);
    fields.add("gradient_clip", gradient_clip,
               "maximum global norm of the gradients, as max_norm of torch.nn.utils.clip_grad_norm_; 0: no clipping",
               configs::kNonNegative);
    fields.add("moving_average", moving_average,
               "decay of an exponential moving average of the weights; evaluations, export and sampling use the "
               "average; 0: no average",
               configs::kBelowOne);
  }
};

}  // namespace strata::trainer
