// SPDX-License-Identifier: MIT
#include "modules/image/patch_embedding.h"

// B images, C channels, G patches along a side, P pixels along the side of a patch, D width

namespace strata::modules {

PatchEmbedding::PatchEmbedding(const Scope& scope, const Sizes& sizes)
    : patch_(sizes.patch),
      projection_(scope, {.outputs = sizes.width,
                          .inputs = sizes.channels * sizes.patch * sizes.patch,
                          .initialization = Initialization::scaled_by_inputs}) {}

Tensor PatchEmbedding::operator()(const Tensor& images) const {
  const int64_t batch = images.size(0), channels = images.size(1), grid = images.size(2) / patch_;
  // Images are fp32, whatever type the layers compute in.
  const Tensor pixels_BCGPGP = images.to(projection_.type()).reshape({batch, channels, grid, patch_, grid, patch_});
  const Tensor patches_BGGCPP = pixels_BCGPGP.permute({0, 2, 4, 1, 3, 5});
  return projection_(patches_BGGCPP.reshape({batch, grid * grid, channels * patch_ * patch_}));
}

}  // namespace strata::modules
