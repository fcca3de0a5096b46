// SPDX-License-Identifier: MIT
#include "modules/kernels_config.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace strata::modules {
namespace {

// Computed before and behind the layers only: a line for some layers would say nothing about them.
constexpr std::array<std::string_view, 5> kOutsideOfLayers = {"embedding", "cross_entropy", "linear_cross_entropy",
                                                              "adamw", "global_norm"};

void check_ops(OpLevels levels, const std::string& line, configs::Checks& checks) {
  levels.each([&](const std::string& op, const std::optional<kernels::Level>& level) {
    if (!level || std::find(kOutsideOfLayers.begin(), kOutsideOfLayers.end(), op) == kOutsideOfLayers.end()) return;
    const std::string key = line + op;
    if (checks.can_check({key})) checks.fail(key, "is computed outside of the layers; kernels." + op + " says how");
  });
}

}  // namespace

void check(const KernelsConfig& kernels, int64_t layers, configs::Checks& checks) {
  if (checks.can_check({"default", "plan"}) && kernels.default_level && !kernels.plan.empty()) {
    checks.fail("plan", "expected none: only default: best reads a plan");
  }
  for (size_t i = 0; i < kernels.layers.size(); ++i) {
    const std::string line = "layers." + std::to_string(i) + ".", key = line + "only";
    const configs::Range& only = kernels.layers[i].only;
    if (checks.can_check({key, "/model.layers"}) && only.last >= layers) {
      checks.fail(key, "expected layers below model.layers " + std::to_string(layers) + ", counted from 0, got " +
                           configs::text_of(only));
    }
    check_ops(kernels.layers[i].levels, line, checks);
  }
}

}  // namespace strata::modules
