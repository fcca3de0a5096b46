// SPDX-License-Identifier: MIT
#include "tools/generation/later_keys.h"

#include <string>

#include "base/errors.h"
#include "kernels/attention/pattern/later_keys.h"
#include "modules/config/layer_patterns.h"

namespace strata::generation {

void check_no_later_keys(const modules::TransformerConfig& config, int64_t prompt, int64_t positions) {
  for (const modules::LayersOfPattern& layers : modules::layers_by_pattern(config)) {
    if (!kernels::sees_later_keys(layers.pattern, prompt, positions)) continue;
    throw Error(ExitCode::configuration,
                "attention of " + modules::layers_text(layers.layers) + " is " + to_text(layers.pattern) +
                    ", so tokens see tokens after them that are not generated yet; samples need a model whose "
                    "attention is causal, or sees ahead only inside of the prompt");
  }
}

}  // namespace strata::generation
