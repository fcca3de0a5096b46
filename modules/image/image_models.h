// SPDX-License-Identifier: MIT
// The families of models that classify images.
#pragma once

#include <memory>

#include "modules/config/model_config.h"
#include "modules/image/image_model.h"
#include "modules/scope.h"

namespace strata::modules {

// Constructs the model of a configuration; a family is a function in image_models.cc. Throws (internal) if the model
// does not take images.
std::unique_ptr<ImageModel> make_image_model(const ModelConfig& model, const Scope& scope);

}  // namespace strata::modules
