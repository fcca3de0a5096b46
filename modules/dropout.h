// SPDX-License-Identifier: MIT
// Dropout. Its mask is a function of (seed, step, site, global row, column), so every split over ranks drops the same
// elements.
#pragma once

#include <ATen/ops/cat.h>

#include <vector>

#include "kernels/dropout/dropout.h"
#include "modules/layer.h"
#include "modules/scope.h"
#include "modules/sequences.h"

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
    const auto* part = context.find<SequencePart>();
    return part == nullptr ? drop_rows(x, context.first_row, context) : drop_sequence_part(x, *part, context);
  }

 private:
  Tensor drop_rows(const Tensor& x, int64_t first_row, const StepContext& context) const {
    return kernels::dropout(x, probability_, context.dropout_key, site_, first_row, level_);
  }

  // The rows of a chunk are consecutive positions of one sequence.
  Tensor drop_sequence_part(const Tensor& x, const SequencePart& part, const StepContext& context) const {
    std::vector<Tensor> chunks;
    for (const Tensor& chunk : x.reshape({-1, x.size(-1)}).split(part.chunk())) {
      const auto number = static_cast<int64_t>(chunks.size());
      const int64_t start = number / 2 * part.sequence() + part.starts()[static_cast<size_t>(number % 2)];
      chunks.push_back(drop_rows(chunk, context.first_row + start, context));
    }
    return at::cat(chunks).view(x.sizes());
  }

  double probability_;
  int64_t site_;
  kernels::Level level_;
};

}  // namespace strata::modules
