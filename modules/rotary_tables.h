// SPDX-License-Identifier: MIT
// Cosine and sine of the rotary positions, computed once on the host in fp64.
#pragma once

#include <ATen/core/Tensor.h>

#include "modules/config/model_config.h"

namespace strata::modules {

using at::Tensor;

struct RotaryTables {
  Tensor cosine, sine;  // fp32 [length, head width / 2]; with packed documents a row for each token: [B T, ...]
};

// Returns the rows of these positions.
RotaryTables rows_of(const RotaryTables& tables, const Tensor& positions);

// angle(t, i) = t * base^(-2i / head width). With `llama3` scaling, low frequencies are divided by `factor`, and the
// band above them is interpolated (Llama 3.1 model card).
RotaryTables rotary_tables(const TransformerConfig& config, int64_t length);

}  // namespace strata::modules
