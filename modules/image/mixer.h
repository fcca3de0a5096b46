// SPDX-License-Identifier: MIT
// An image classifier of MLPs over patches and over channels (MLP-Mixer, Tolstikhin et al. 2021).
#pragma once

#include <vector>

#include "modules/config/mixer_config.h"
#include "modules/image/image_model.h"
#include "modules/image/patch_embedding.h"
#include "modules/linear.h"
#include "modules/norm.h"
#include "modules/scope.h"

namespace strata::modules {

class Mixer : public ImageModel {
 public:
  Mixer(const MixerConfig& config, const Scope& scope);

  void wrap_layers(const WrapLayer& wrap) override;
  int64_t rows_per_image() const override { return patches_; }
  // Patches, blocks, norm, the mean over all patches, head.
  Tensor operator()(const Tensor& images, const StepContext& context) const override;

 private:
  int64_t patches_;
  // The order in which parameters are declared. Each block is a group of its own, and so is the head.
  PatchEmbedding patch_embedding_;
  std::vector<Layer> blocks_;
  Norm norm_;
  Linear head_;
};

}  // namespace strata::modules
