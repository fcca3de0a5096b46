// SPDX-License-Identifier: MIT
// The language model of a run, with the weights of one of its checkpoints.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "modules/config/model_config.h"

namespace strata::generation {

// The type of fp32 or bf16.
inline at::ScalarType named_type(const std::string& name) { return name == "bf16" ? at::kBFloat16 : at::kFloat; }

struct LoadedRun {
  modules::TransformerConfig config;
  std::map<std::string, at::Tensor> weights;  // by name, unsharded and without gradients
};

// Returns the first GPU for auto and cuda, if there is one, or else the CPU. Samples are the same on both, except for
// rounding.
at::Device choose_device(const std::string& wish);

// Reads the newest checkpoint that is whole, or that of a step, and rounds its weights to the type of the
// options. Notes about damaged ones go to stderr.
LoadedRun load_run(const std::string& folder, std::optional<int64_t> step, const at::TensorOptions& options);

}  // namespace strata::generation
