// SPDX-License-Identifier: MIT
#include "modules/config/module.h"

#include <algorithm>

#include "base/text/joined.h"
#include "base/text/nearest_name.h"
#include "configs/range.h"
#include "modules/config/module_name.h"

namespace strata::modules {
namespace {

// Returns the modules with a product, by their names within layers.
std::string with_products(const std::vector<DeclaredModule>& modules) {
  std::vector<std::string_view> names;
  for (const DeclaredModule& module : modules) {
    const std::string_view name = name_in_layer(module.name);
    if (!module.product || std::ranges::find(names, name) != names.end()) continue;
    names.push_back(name);
  }
  return joined(names, ", ");
}

}  // namespace

std::string problem_of_module(const std::string& name, const std::vector<DeclaredModule>& modules) {
  bool is_known = false;
  int64_t layers = 0;
  std::string list;  // blocks
  std::vector<std::string> names;
  for (const DeclaredModule& module : modules) {
    is_known = is_known || covers(name, module.name);
    if (const auto layer = layer_of(module.name)) {
      layers = *layer + 1;
      list = module.name.substr(0, module.name.find('.'));
    }
    const std::string in_layer(name_in_layer(module.name));
    if (!in_layer.empty() && std::find(names.begin(), names.end(), in_layer) == names.end()) names.push_back(in_layer);
  }
  const std::optional<configs::Range> range = layers_in(name);
  if (range && (range->last >= layers || range->first > range->last)) {
    return "expected layers below model.layers " + std::to_string(layers) + ", counted from 0, got '" + name + "'";
  }
  if (is_known) return "";

  std::string meant;
  if (range) {  // a layer with a wrong name, or an unknown part of a layer
    const size_t end = name.find('.', name.find('.') + 1);
    const std::string layer = list + "." + to_text(*range);
    if (end == std::string::npos) {
      meant = layer;
    } else if (const std::string part = nearest_name(name.substr(end + 1), names); !part.empty()) {
      meant = layer + "." + part;
    }
  } else {
    meant = nearest_name(name, names);
  }
  return "expected a module of this model (" + joined(names, ", ") + "), alone or behind its layer (" + list +
         ".0), got '" + name + "'" + did_you_mean(meant);
}

std::string problem_of_linear_layer(const std::string& name, const std::string& what,
                                    const std::vector<DeclaredModule>& modules) {
  std::string problem = problem_of_module(name, modules);
  const auto is_meant = [&](const DeclaredModule& module) { return module.product && covers(name, module.name); };
  if (!problem.empty() || std::ranges::any_of(modules, is_meant)) return problem;
  return "no linear layer of " + name + " takes " + what + "; those that do: " + with_products(modules);
}

}  // namespace strata::modules
