// SPDX-License-Identifier: MIT
#include "modules/kernels_config.h"

namespace strata::modules {

void check(const KernelsConfig& kernels, int64_t layers, configs::Checks& checks) {
  if (checks.can_check({"default", "plan"}) && kernels.default_level && !kernels.plan.empty()) {
    checks.fail("plan", "expected none: only default: best reads a plan");
  }
  for (size_t i = 0; i < kernels.layers.size(); ++i) {
    const std::string key = "layers." + std::to_string(i) + ".only";
    const configs::Range& only = kernels.layers[i].only;
    if (checks.can_check({key, "/model.layers"}) && only.last >= layers) {
      checks.fail(key, "expected layers below model.layers " + std::to_string(layers) + ", counted from 0, got " +
                           configs::text_of(only));
    }
  }
}

}  // namespace strata::modules
