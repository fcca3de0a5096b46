// SPDX-License-Identifier: MIT
// Every module of a model: its name, the group of parameters that it is gathered with, and the ops that it computes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "modules/config/model_config.h"

namespace strata::modules {

struct Module {
  std::string name;                        // blocks.3.attention.qkv
  std::string group;                       // of the parameter table: root, blocks.3, head
  std::vector<std::string_view> ops = {};  // keys of `kernels:`, without those of the modules inside
};

// What a run decides about who computes what.
struct ModuleUse {
  bool head_and_loss_are_one = false;       // kernels.linear_cross_entropy
  bool features_are_gathered_once = false;  // by the first convolution, whose relu then belongs to its product
};

// In the order in which they compute; a module stands before its parts.
std::vector<Module> module_table(const ModelConfig& model, const ModuleUse& use);

// What is wrong with a name that a configuration has for modules, in the words of the nearest that would be right;
// empty where it means some of these.
std::string problem_of_module(const std::string& name, const std::vector<Module>& modules);

// The group that the weight of the head is in.
std::string head_group(const TransformerConfig& model);

}  // namespace strata::modules
