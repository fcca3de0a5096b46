// SPDX-License-Identifier: MIT
#include "tools/bench/step_level.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/errors.h"
#include "base/text/formatted.h"
#include "kernels/level_matrix.h"
#include "kernels/proof/agreement.h"
#include "modules/config/kernel_selection.h"
#include "tools/bench/single_level_kernels.h"
#include "trainer/levels/level_check.h"
#include "trainer/levels/pattern_check.h"
#include "trainer/tasks/declared_model.h"

namespace strata::tools {
namespace {

using kernels::Level;

void compare(const std::string& what, double found, double expected, at::ScalarType dtype) {
  const double difference = std::abs(found - expected) / std::abs(expected), allowed = allowed_difference(dtype);
  if (difference <= allowed) return;  // false if one of them is not a number
  throw Error(ExitCode::numerics,
              formatted("the %s is %.9g, and at level aten %.9g: they differ by %.2g of it, and %.2g is allowed; the "
                        "level is not timed",
                        what.c_str(), found, expected, difference, allowed));
}

}  // namespace

void set_level(trainer::LoadedConfig& loaded, Level level, at::Device device) {
  modules::KernelsConfig& kernels = loaded.config.kernels;
  kernels = {.default_level = level};  // the modules that compute an op may depend on it
  const kernels::Target target = kernels::target_of(device);
  const std::vector<modules::DeclaredModule> modules = trainer::declared_model(loaded.config).modules;
  std::set<std::string_view> ops;
  for (const modules::DeclaredModule& module : modules) ops.insert(module.ops.begin(), module.ops.end());
  const SingleLevelKernels chosen = single_level_kernels(level, ops, target);
  if (chosen.is_absent) throw Error(ExitCode::configuration, chosen.reason);
  kernels = chosen.kernels;
  const auto attention = trainer::attention_of_run(loaded.config);
  if (!refused_levels_of_attention(attention, kernels, loaded.config.precision, target.gpu).empty()) {
    kernels.levels.attention = Level::aten;
  }
  trainer::check_levels(loaded, modules, target);
}

std::map<std::string, std::string> levels_of_ops(const modules::KernelsConfig& kernels,
                                                 const std::vector<modules::DeclaredModule>& modules) {
  std::map<std::string, std::string> levels;
  for (const modules::DeclaredModule& module : modules) {
    for (const std::string_view op : module.ops) {
      levels[std::string(op)] = name(modules::chosen_level(kernels, module.name, op).or_aten());
    }
  }
  return levels;
}

StepOfAten read_step_of_aten(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  try {
    const nlohmann::json json = nlohmann::json::parse(line);
    if (json.at("level") == name(Level::aten)) {
      return {json.at("first_loss"), json.at("first_gradient_norm"), json.at("milliseconds")};
    }
  } catch (const nlohmann::json::exception&) {
  }
  throw Error(ExitCode::configuration,
              path + ": expected a line of JSON of bench step --level aten with a finite loss and gradient norm");
}

// Sums of a step are means over many values, whose roundings mostly cancel. Levels of a small Llama on a CPU differ by
// 1e-7 in float32 and by 1.3e-4 in bfloat16. The second term is for sums in another order.
double allowed_difference(at::ScalarType dtype) { return 2 * kernels::unit_roundoff(dtype) + 1e-5; }

void require_the_same_step(const trainer::StepResult& first, const StepOfAten& aten, at::ScalarType dtype) {
  const std::string step_text = " of step " + std::to_string(first.step);
  compare("loss" + step_text, first.loss, aten.loss, dtype);
  compare("gradient norm" + step_text, first.gradient_norm, aten.gradient_norm, dtype);
}

}  // namespace strata::tools
