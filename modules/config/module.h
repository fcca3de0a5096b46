// SPDX-License-Identifier: MIT
// A module of a model as its constructor declares it: its name, the group of parameters that it is gathered with, and
// the ops that it computes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/activation/activation_kind.h"

namespace strata::modules {

// A linear layer as its module declares it.
struct DeclaredLinear {
  int64_t outputs, inputs;
  bool has_bias = false;
  kernels::Activation activation = kernels::Activation::none;  // its epilogue, if it has no format and no sparsity
};

struct DeclaredModule {
  std::string name;                            // blocks.3.attention.qkv
  std::string group;                           // root, blocks.3, head
  std::vector<std::string_view> ops = {};      // keys of `kernels:`, without the ops of inner modules
  std::optional<DeclaredLinear> product = {};  // a linear layer that may have a number format or sparsity
};

// Choices of a run that move an op from one module to another.
struct OpPlacement {
  bool has_fused_head = false;  // kernels.linear_cross_entropy
  // The first convolution of a graph network multiplies features that were aggregated before the first step. So an
  // activation of this convolution is the epilogue of its product.
  bool features_are_aggregated_once = false;
};

// Returns an error message if `name` covers no module of the model, with the nearest name that covers one. Returns an
// empty text if `name` covers at least one.
std::string problem_of_module(const std::string& name, const std::vector<DeclaredModule>& modules);

// The same if `name` must cover at least one linear layer with a product. `what` is the setting of the layer: "a number
// format".
std::string problem_of_linear_layer(const std::string& name, const std::string& what,
                                    const std::vector<DeclaredModule>& modules);

}  // namespace strata::modules
