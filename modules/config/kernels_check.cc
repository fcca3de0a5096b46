// SPDX-License-Identifier: MIT
#include "modules/config/kernels_check.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/joined.h"
#include "kernels/runtime/gpus.h"
#include "modules/config/module_name.h"

namespace strata::modules {
namespace {

template <class List>
bool contains(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Returns the ops of the modules that `only` names.
std::vector<std::string> ops_in(const std::string& only, const std::vector<DeclaredModule>& modules) {
  std::vector<std::string> ops;
  for (const DeclaredModule& module : modules) {
    if (!covers(only, module.name)) continue;
    for (const std::string_view op : module.ops) {
      if (!contains(ops, op)) ops.emplace_back(op);
    }
  }
  return ops;
}

void check_module(const KernelsConfig& kernels, size_t index, const std::vector<DeclaredModule>& modules,
                  configs::Checks& checks) {
  const std::string& only = kernels.modules[index].only;  // clang 14 captures no structured bindings
  const std::string line = "modules." + std::to_string(index) + ".";
  const bool is_one_with_loss = kernels.levels.linear_cross_entropy && covers(only, "head");
  const std::string problem = is_one_with_loss ? "" : problem_of_module(only, modules);
  if (!problem.empty()) {
    checks.fail(line + "only", problem);
    return;
  }
  const std::vector<std::string> computed = ops_in(only, modules);
  const std::string why = is_one_with_loss ? ", because kernels.linear_cross_entropy makes head and loss one op" : "";
  OpLevels levels = kernels.modules[index].levels;
  levels.each([&](const std::string& op, const std::optional<kernels::Level>& level) {
    if (!level || contains(computed, op)) return;
    checks.fail(line + op, "is not computed by " + only + why +
                               "; ops there: " + (computed.empty() ? "none" : joined(computed, ", ")));
  });
}

}  // namespace

void check(const KernelsConfig& kernels, int64_t layers, configs::Checks& checks) {
  if (checks.can_check({"default", "plan"}) && kernels.default_level && !kernels.plan.empty()) {
    checks.fail("plan", "expected none: only default: best reads a plan");
  }
  if (kernels.architecture && checks.can_check({"architecture"})) {
    const int64_t portable = kernels::kPortable.oldest;
    if (*kernels.architecture != portable) {
      checks.fail("architecture", "expected " + std::to_string(portable) + ", or nothing");
    } else if (checks.can_check({"default"}) && !kernels.default_level) {
      checks.fail("architecture", "expected nothing: default: best measures the code for the GPU");
    }
  }
  for (size_t i = 0; i < kernels.layers.size(); ++i) {
    const std::string key = "layers." + std::to_string(i) + ".only";
    const configs::Range& only = kernels.layers[i].only;
    if (checks.can_check({key, "/model.layers"}) && only.last >= layers) {
      checks.fail(key, "expected layers below model.layers " + std::to_string(layers) + ", counted from 0, got " +
                           configs::to_text(only));
    }
  }
}

void check_modules(const KernelsConfig& kernels, const std::vector<DeclaredModule>& modules, configs::Checks& checks) {
  for (size_t i = 0; i < kernels.modules.size(); ++i) check_module(kernels, i, modules, checks);
}

}  // namespace strata::modules
