// SPDX-License-Identifier: MIT
// Every parameter of a model: name, shape and first values, in the groups that are gathered together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modules/model_config.h"

namespace strata::modules {

// normal: deviation 0.02. residual: 0.02 / sqrt(2 x layers), for projections that end a residual branch.
enum class Initialization { normal, residual, ones, zeros };

struct Parameter {
  std::string name;  // blocks.3.norm1.weight
  std::vector<int64_t> shape;
  Initialization initialization = Initialization::normal;

  int64_t elements() const;
  bool decayed() const { return shape.size() >= 2; }  // weight decay is for matrices and embeddings
};

struct ParameterGroup {
  std::string name;  // root, blocks.3, head
  std::vector<Parameter> parameters;
  bool is_layer = false;  // in full only while it computes; the others are for the whole step

  int64_t elements() const;
};

// The root group (embeddings and the last norm) first, then a group for each block, then an untied head.
std::vector<ParameterGroup> parameter_table(const TransformerConfig& config);

int64_t parameter_count(const std::vector<ParameterGroup>& table);

// For each token, forward and backward, without recomputation, causal attention counted half: 6 x (parameters that are
// multiplied as matrices, the head included, the embedding not) + 6 x sequence x width x layers.
double flops_per_item(const TransformerConfig& config);

}  // namespace strata::modules
