// SPDX-License-Identifier: MIT
// The interface of a model, of any family, that the task of image classification uses, and the families.
#pragma once

#include <cstdint>
#include <memory>

#include "modules/config/model_config.h"
#include "modules/layer.h"
#include "modules/scope.h"

namespace strata::modules {

class ImageModel {
 public:
  virtual ~ImageModel() = default;
  // Replaces each layer by the result of `wrap`: recomputation, timing, sharding.
  virtual void wrap_layers(const WrapLayer& wrap) = 0;
  // Rows of activations of one image, by which dropout is keyed.
  virtual int64_t rows_per_image() const = 0;
  // images [B, C, H, W], fp32 -> logits [B, classes]
  virtual Tensor operator()(const Tensor& images, const StepContext& context) const = 0;
};

// Constructs the model of a configuration; a family is a function in image_models.cc. Throws (internal) if the model
// does not take images.
std::unique_ptr<ImageModel> make_image_model(const ModelConfig& model, const Scope& scope);

}  // namespace strata::modules
