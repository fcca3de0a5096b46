// SPDX-License-Identifier: MIT
// computed_pattern: the pattern that attention computes in a layer.
#pragma once

#include "kernels/attention/pattern/pattern.h"
#include "trainer/config/data_config.h"

namespace strata::trainer {

// The pattern of a layer, within documents if the run keeps these apart.
inline kernels::Pattern computed_pattern(DocumentUse documents, const kernels::Pattern& layer_pattern) {
  return documents == DocumentUse::separate ? within_documents(layer_pattern) : layer_pattern;
}

}  // namespace strata::trainer
