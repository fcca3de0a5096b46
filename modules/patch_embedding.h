// SPDX-License-Identifier: MIT
// The first layer of a vision transformer: an image cut into square patches, each projected to a token.
#pragma once

#include "modules/config/model_config.h"
#include "modules/linear.h"
#include "modules/scope.h"

namespace strata::modules {

// A convolution whose stride is its size, as one GEMM: row d of the weight is the filter d of timm's
// patch_embed.proj.weight [D, C, P, P], flattened in this order.
class PatchEmbedding {
 public:
  PatchEmbedding(const Scope& scope, const VisionTransformerConfig& config);

  Tensor operator()(const Tensor& images) const;  // [B, C, H, W] -> [B, patches, D], row by row of the image

 private:
  int64_t patch_;
  Linear projection_;
};

}  // namespace strata::modules
