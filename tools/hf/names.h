// SPDX-License-Identifier: MIT
// Names and layout of a transformer's parameters in the folders of Hugging Face's models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modules/config/model_config.h"

namespace strata::hf {

// A tensor in the Hugging Face file, which holds rows of a parameter of Strata.
struct FileTensor {
  std::string name;
  std::vector<int64_t> shape;  // in the file
  int64_t rows = 0;            // rows of the parameter
};

// A parameter of Strata: its parts are concatenated along rows. If `transposed`, each part is stored as [in, out] and
// is transposed first. `added` is what Strata's values have more than those in the file.
struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  bool transposed = false;
  std::vector<FileTensor> parts;
  double added = 0;
};

// Returns all parameters of the model, in the order of its parameter table.
std::vector<Parameter> parameters(const modules::TransformerConfig& config);

// True for tensors of older files that follow from the configuration (causal masks, rotary frequencies) or are stored
// twice (a tied head).
bool is_redundant(const std::string& name, bool tied);

// Names of tensors in GPT-2's files may start with this prefix.
inline constexpr char kGpt2Prefix[] = "transformer.";

}  // namespace strata::hf
