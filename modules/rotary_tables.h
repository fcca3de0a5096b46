// SPDX-License-Identifier: MIT
// Cosine and sine of the rotary positions, computed once on the host in fp64.
#pragma once

#include <ATen/core/Tensor.h>

#include "modules/config/model_config.h"

namespace strata::modules {

using at::Tensor;

// A table for each of the rotary positions in layers_by_rotary(): fp32 [tables, length, head width / 2]. With packed
// documents there is a row for each token: [tables, B T, ...].
struct RotaryTables {
  Tensor cosine, sine;

  struct Table {
    Tensor cosine, sine;
  };
  Table of(int64_t number) const { return {cosine.select(0, number), sine.select(0, number)}; }
};

// Returns the rows of these positions.
RotaryTables rows_of(const RotaryTables& tables, const Tensor& positions);

// angle(t, i) = t * base^(-2i / rotated width). Pairs of features i, i + head width / 2 with i < rotated width / 2 are
// rotated. The other features have cosine 1 and sine 0, which changes nothing. Scores do not depend on which features
// are paired, as long as queries and keys are paired alike. Scaling divides frequencies by `factor`: all of them with
// `linear`, the low ones with `llama3` (Llama 3.1 model card) and `yarn` (Peng et al. 2023), which interpolate a band
// above them. `yarn` also multiplies cosine and sine. The tables are on the CPU, or without values on device meta.
RotaryTables rotary_tables(const TransformerConfig& config, int64_t length, at::Device device = at::kCPU);

}  // namespace strata::modules
