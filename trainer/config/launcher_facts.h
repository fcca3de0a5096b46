// SPDX-License-Identifier: MIT
// Facts about a configuration for tools/strata, in a form that bash reads without a YAML parser.
#pragma once

#include <string>

#include "trainer/config/load_config.h"

namespace strata::trainer {

// Returns facts; each is a line with a name, a tab and a value. Every value of the configuration is a fact under its
// key. The fact packages.ops is for packages of level aot_inductor: the keys of `kernels:` that name this level
// anywhere, with commas between, or `all` if it is the default.
std::string launcher_facts(const LoadedConfig& loaded);

// Returns the facts of a run that takes `best` from the plan in this file, which need not exist yet: kernels.plan and
// packages.ops, with the ops of the plan. The fact `override` is the argument that makes a run use the plan.
std::string plan_facts(const LoadedConfig& loaded, const std::string& plan);

}  // namespace strata::trainer
