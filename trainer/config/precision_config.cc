// SPDX-License-Identifier: MIT
#include "trainer/config/precision_config.h"

#include <algorithm>
#include <optional>

#include "base/text/word_of.h"
#include "modules/config/module_name.h"

namespace strata::trainer {
namespace {

using modules::DeclaredModule;

// Returns a text such as "root (embedding, norm), blocks.0-3, head".
std::string listed_groups(const std::vector<DeclaredModule>& modules) {
  std::vector<std::string> groups;
  std::string layers;
  for (const DeclaredModule& module : modules) {
    if (modules::layer_of(module.group)) {
      layers = module.group;
    } else if (!module.group.empty() && std::find(groups.begin(), groups.end(), module.group) == groups.end()) {
      groups.push_back(module.group);
    }
  }
  std::string text;
  for (const std::string& group : groups) {
    std::string parts;
    for (const DeclaredModule& module : modules) {
      if (module.group == group) parts += (parts.empty() ? "" : ", ") + module.name;
    }
    text += group + (parts == group ? ", " : " (" + parts + "), ");
  }
  const size_t dot = layers.find('.');
  return text + layers.substr(0, dot) + ".0" + (layers.ends_with(".0") ? "" : "-" + layers.substr(dot + 1));
}

// Returns an empty text if `name` means one group or several of them, otherwise an error message.
std::string problem_of_group(const std::string& name, const std::vector<DeclaredModule>& modules) {
  const auto is_meant = [&](const DeclaredModule& module) { return modules::covers(name, module.group); };
  const bool is_group = std::any_of(modules.begin(), modules.end(), is_meant);
  const std::string problem = modules::problem_of_module(name, modules);
  if (is_group && (problem.empty() || name == "root")) return "";
  const std::string groups = "a type belongs to a whole group of parameters: " + listed_groups(modules);
  if (!problem.empty()) return problem + "; " + groups;
  return name + " is gathered with others, and " + groups;
}

}  // namespace

FloatType PrecisionConfig::compute_of(const std::string& group) const {
  FloatType result = compute;
  const std::optional<int64_t> layer = modules::layer_of(group);
  for (const LayerPrecision& line : layers) {
    if (layer && line.only.contains(*layer)) result = line.compute;
  }
  for (const ModulePrecision& line : modules) {
    if (modules::covers(line.only, group)) result = line.compute;
  }
  return result;
}

bool PrecisionConfig::scales_loss() const {
  const auto is_float16 = [](const auto& line) { return line.compute == FloatType::float16; };
  return compute == FloatType::float16 || std::ranges::any_of(layers, is_float16) ||
         std::ranges::any_of(modules, is_float16);
}

FloatType PrecisionConfig::reduce_of(const std::string& group) const {
  return compute_of(group) == FloatType::float32 ? FloatType::float32 : reduce;
}

void check(const PrecisionConfig& precision, int64_t layers, configs::Checks& checks) {
  for (size_t i = 0; i < precision.layers.size(); ++i) {
    const std::string key = "layers." + std::to_string(i) + ".only";
    if (!checks.can_check({key, "/model.layers"}) || precision.layers[i].only.last < layers) continue;
    checks.fail(key, "expected layers below model.layers " + std::to_string(layers) + ", counted from 0, got " +
                         to_text(precision.layers[i].only));
  }
  if (!checks.can_check({"compute", "reduce", "layers", "modules"})) return;
  if (precision.compute == FloatType::float32 && precision.reduce != FloatType::float32) {
    checks.fail("reduce", word_of(precision.reduce) +
                              " would round gradients that compute: float32 made exactly; expected float32");
  } else if (precision.reduce == FloatType::float16 && !precision.scales_loss()) {
    checks.fail("reduce",
                "small gradients become zero in float16 without a loss scale, which only compute: float16 has; "
                "expected bfloat16 or float32");
  }
  if (!precision.scales_loss() && precision.loss_scaling != LossScaling{}) {
    checks.fail("loss_scaling", "the loss is scaled only if something computes in float16; expected compute: float16");
  }
}

void check_modules(const PrecisionConfig& precision, const std::vector<DeclaredModule>& modules,
                   configs::Checks& checks) {
  for (size_t i = 0; i < precision.modules.size(); ++i) {
    const std::string problem = problem_of_group(precision.modules[i].only, modules);
    if (!problem.empty()) checks.fail("modules." + std::to_string(i) + ".only", problem);
  }
}

}  // namespace strata::trainer
