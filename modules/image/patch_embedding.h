// SPDX-License-Identifier: MIT
// The first layer of models on images: cuts an image into square patches and projects each patch to a token.
#pragma once

#include "modules/linear.h"
#include "modules/scope.h"

namespace strata::modules {

// A convolution whose stride is its kernel size, as one GEMM. Row d of the weight is filter d of timm's
// patch_embed.proj.weight [D, C, P, P], flattened in this order.
class PatchEmbedding {
 public:
  struct Sizes {
    int64_t channels, patch, width;  // patch: height and width of a patch in pixels
  };
  PatchEmbedding(const Scope& scope, const Sizes& sizes);

  Tensor operator()(const Tensor& images) const;  // [B, C, H, W] -> [B, patches, D], row by row of the image

 private:
  int64_t patch_;
  Linear projection_;
};

}  // namespace strata::modules
