// SPDX-License-Identifier: MIT
#include "trainer/config/launcher_facts.h"

#include <set>

#include "base/text/joined.h"
#include "configs/document.h"
#include "configs/value.h"
#include "modules/config/kernel_selection.h"

namespace strata::trainer {
namespace {

using kernels::Level;
using modules::KernelsConfig;
using Words = std::set<std::string>;

// A value never has control characters, because the reader of configurations refuses them.
std::string fact(const std::string& name, const std::string& value) { return name + '\t' + value + '\n'; }

// A plan that cannot be read has no ops here. The ranks report the error.
Words planned_ops_at_aot_inductor(const std::string& path) {
  configs::ErrorList errors;
  const configs::NodePtr plan = configs::load_document(path, errors);
  const configs::NodePtr levels = plan ? plan->find("levels") : nullptr;
  Words ops;
  if (!levels) return ops;
  for (const configs::Node::Entry& entry : levels->entries) {
    if (entry.value->text == name(Level::aot_inductor)) ops.insert(entry.key);
  }
  return ops;
}

std::string ops_of_packages(const KernelsConfig& kernels, const std::string& plan) {
  if (kernels.default_level == Level::aot_inductor) return "all";
  Words ops = modules::ops_set_to(kernels, Level::aot_inductor);
  if (!plan.empty()) ops.merge(planned_ops_at_aot_inductor(plan));
  return joined(ops, ",");
}

}  // namespace

std::string launcher_facts(const LoadedConfig& loaded) {
  const KernelsConfig& kernels = loaded.config.kernels;
  std::string facts;
  for (const configs::Line& line : loaded.lines()) facts += fact(line.path, line.plain);
  return facts + fact("packages.ops", ops_of_packages(kernels, kernels.plan));
}

std::string plan_facts(const LoadedConfig& loaded, const std::string& plan) {
  return fact("kernels.plan", plan) + fact("packages.ops", ops_of_packages(loaded.config.kernels, plan)) +
         fact("override", "kernels.plan=" + configs::yaml_of(plan));
}

}  // namespace strata::trainer
