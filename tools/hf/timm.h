// SPDX-License-Identifier: MIT
// Folders of timm's vision transformers: config.json, and names and layout of the parameters.
#pragma once

#include <string>
#include <vector>

#include "modules/config/vision_transformer_config.h"
#include "tools/hf/json_section.h"
#include "tools/hf/names.h"

namespace strata::hf {

// The normalization that timm applies to the pixels of each channel: (pixel / 255 - mean) / deviation.
struct PixelValues {
  std::vector<double> mean, deviation;
  double crop = 1;  // share of the shorter side that is kept
};

// Returns the text of config.json. Throws Error(configuration) if timm's class does not support the model.
std::string write_config(const modules::VisionTransformerConfig& model, const PixelValues& pixels);

// Throws Error(data) that names the key. As in timm, `model_args` overrides `pretrained_cfg`, which overrides the
// sizes of the architecture's name.
modules::VisionTransformerConfig read_timm_config(const JsonSection& json);

// Returns how the images of the model were normalized and cropped, as keys of `data:`. Empty if config.json is not of
// timm or does not say it.
std::string keys_of_pixels(const std::string& config, const std::string& path);

// Returns the model as one line of YAML: model: {...}
std::string model_section(const modules::VisionTransformerConfig& model);

// Returns all parameters of the model, in the order of its parameter table.
std::vector<Parameter> parameters(const modules::VisionTransformerConfig& config);

}  // namespace strata::hf
