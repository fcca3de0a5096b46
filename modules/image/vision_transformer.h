// SPDX-License-Identifier: MIT
// An image classifier of transformer blocks on patches (ViT), as in timm.
#pragma once

#include <vector>

#include "modules/config/vision_transformer_config.h"
#include "modules/dropout.h"
#include "modules/image/image_model.h"
#include "modules/image/patch_embedding.h"
#include "modules/layer.h"
#include "modules/linear.h"
#include "modules/norm.h"
#include "modules/scope.h"

namespace strata::modules {

class VisionTransformer : public ImageModel {
 public:
  VisionTransformer(const VisionTransformerConfig& config, const Scope& scope);

  void wrap_layers(const WrapLayer& wrap) override;
  int64_t rows_per_image() const override { return tokens_; }
  // The order is norm, pooling, head. With pooling mean this is timm's global_pool='avg', fc_norm=False.
  Tensor operator()(const Tensor& images, const StepContext& context) const override;

 private:
  int64_t tokens_;
  // The order in which parameters are declared. Each block is a group of its own, and so is the head.
  PatchEmbedding patch_embedding_;
  Tensor class_token_, position_;  // [D], undefined if pooling is the mean; [T, D]
  Dropout embedding_dropout_;
  std::vector<Layer> blocks_;
  Norm norm_;
  Linear head_;
};

}  // namespace strata::modules
