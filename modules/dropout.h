// SPDX-License-Identifier: MIT
// Dropout. Its mask is a function of (seed, step, site, global row, column), so every split over ranks drops the same
// elements.
#pragma once

#include "kernels/dropout/dropout.h"
#include "modules/layer.h"
#include "modules/scope.h"

namespace strata::modules {

class Dropout {
 public:
  // `site` numbers the dropouts of a model; each has a number of its own.
  Dropout(const Scope& scope, double probability, int64_t site)
      : probability_(probability),
        site_(site),
        level_(probability > 0 ? scope.level("dropout") : kernels::Level::aten) {}

  Tensor operator()(const Tensor& x, const StepContext& context) const {
    if (probability_ == 0 || !context.dropout_key.defined()) return x;
    return kernels::dropout(x, probability_, context.dropout_key, site_, context.first_row, level_);
  }

 private:
  double probability_;
  int64_t site_;
  kernels::Level level_;
};

}  // namespace strata::modules
