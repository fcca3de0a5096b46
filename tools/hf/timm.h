// SPDX-License-Identifier: MIT
// The folders of timm's vision transformers: config.json, and how they name and lay out the parameters.
#pragma once

#include <string>
#include <vector>

#include "modules/config/model_config.h"
#include "tools/hf/json_section.h"
#include "tools/hf/names.h"

namespace strata::hf {

// How timm is to make numbers of the pixels of each channel: (pixel / 255 - mean) / deviation.
struct PixelValues {
  std::vector<double> mean, deviation;
  double crop = 1;  // share of the shorter side that is seen
};

// The text of config.json. Throws Error(configuration) when timm's class cannot do what the model does.
std::string write_config(const modules::VisionTransformerConfig& model, const PixelValues& pixels);

// Throws Error(storage) that names the key. What `model_args` says goes before `pretrained_cfg`, and this before what
// the name of the architecture says, as in timm.
modules::VisionTransformerConfig read_timm_config(const JsonSection& json);

// One line of YAML that says the same: model: {...}
std::string model_section(const modules::VisionTransformerConfig& model);

// All parameters of the model, in the order of its table.
std::vector<Parameter> parameters(const modules::VisionTransformerConfig& config);

}  // namespace strata::hf
