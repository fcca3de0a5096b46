// SPDX-License-Identifier: MIT
// Dropout whose mask is a function of (seed, step, place, global row, column): any split over ranks drops the same
// elements.
#pragma once

#include "kernels/dropout/dropout.h"
#include "modules/layer.h"
#include "modules/scope.h"

namespace strata::modules {

class Dropout {
 public:
  // `site` is a number that no other dropout of the model has.
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
