// SPDX-License-Identifier: MIT
// `model: {type: mixer}`: an image classifier of MLPs over patches and over channels (MLP-Mixer, Tolstikhin et al.
// 2021).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "configs/checks.h"
#include "configs/limits.h"
#include "modules/config/image_sizes.h"
#include "modules/config/model_attention.h"
#include "modules/config/parameter_group.h"

namespace strata::modules {

struct MixerConfig {
  static constexpr std::string_view kItem = "image";
  static constexpr bool kHasBlocks = true, kIsGraph = false, kCanFuseHead = false;

  int64_t layers = 0;
  int64_t width = 0;
  int64_t token_width = 0;
  int64_t feed_forward = 0;
  int64_t image_size = 0;
  int64_t patch = 0;
  int64_t channels = 3;
  int64_t classes = 0;
  double dropout = 0;
  double label_smoothing = 0;
  double norm_epsilon = 1e-6;

  int64_t items_per_sample() const { return 1; }
  int64_t token_hidden_width() const { return token_width == 0 ? std::max<int64_t>(width / 2, 1) : token_width; }
  int64_t feed_forward_or_default() const { return feed_forward == 0 ? 4 * width : feed_forward; }
  int64_t patches() const { return (image_size / patch) * (image_size / patch); }  // in one image
  ImageSizes image_sizes() const { return {channels, image_size, classes, label_smoothing}; }

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("layers", layers, "number of mixer blocks", configs::between(1, 10000));
    fields.require("width", width, "width of the hidden states", configs::between(1, 1e6));
    fields.add("token_width", token_width, "inner width of the MLP over patches; 0: half of width",
               configs::between(0, 1e7));
    fields.add("feed_forward", feed_forward, "inner width of the MLP over channels; 0: four times width",
               configs::between(0, 1e7));
    fields.require("image_size", image_size, "height and width of the images", configs::between(1, 65536), "pixels");
    fields.require("patch", patch, "height and width of a patch; it must divide image_size", configs::between(1, 65536),
                   "pixels");
    fields.add("channels", channels, "channels of the images: 1 for gray, 3 for RGB", configs::between(1, 1024));
    fields.require("classes", classes, "number of classes", configs::between(2, 1e8));
    fields.add("dropout", dropout, "dropout probability at the end of both residual branches; 0: no dropout",
               configs::kBelowOne);
    fields.add("label_smoothing", label_smoothing,
               "label_smoothing of the training loss, as in torch.nn.CrossEntropyLoss; 0: off", configs::kBelowOne);
    fields.add("norm_epsilon", norm_epsilon, "epsilon of the norms, added to the variance", configs::kEpsilon);
  }
};

void check(const MixerConfig& model, configs::Checks& checks);
// See model_config.h.
double flops_per_item(const MixerConfig& model, const std::vector<ParameterGroup>& groups);
inline std::optional<ModelAttention> attention_of(const MixerConfig&) { return std::nullopt; }

}  // namespace strata::modules
