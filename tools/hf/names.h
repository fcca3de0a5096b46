// SPDX-License-Identifier: MIT
// How the folders of Hugging Face's GPT-2 and Llama models name and lay out the parameters of a transformer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modules/config/model_config.h"

namespace strata::hf {

struct Part {
  std::string name;
  std::vector<int64_t> shape;  // as it is stored there
  int64_t rows = 0;            // of our parameter
};

// One of our parameters: the parts below each other, each of them transposed first where they store [in, out].
struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  bool transposed = false;
  std::vector<Part> parts;
};

// All parameters of the model, in the order of its table.
std::vector<Parameter> parameters(const modules::TransformerConfig& config);

// Names under which older files store what follows from the configuration (causal masks, rotary frequencies) or stands
// there a second time (a tied head).
bool is_redundant(const std::string& name, bool tied);

// GPT-2's files name their tensors with or without this in front.
inline constexpr char kGpt2Prefix[] = "transformer.";

}  // namespace strata::hf
