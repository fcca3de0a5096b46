// SPDX-License-Identifier: MIT
// `model: {type: vision_transformer}`: an image classifier of transformer blocks, with the sizes that timm names.
#pragma once

#include <array>
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

// Sizes by timm's names. custom: the configuration gives every size.
enum class VisionSize {
  custom,
  vit_tiny_patch16_224,
  vit_small_patch16_224,
  vit_base_patch16_224,
  vit_large_patch16_224
};
constexpr std::array<std::string_view, 5> names(VisionSize) {
  return {"custom", "vit_tiny_patch16_224", "vit_small_patch16_224", "vit_base_patch16_224", "vit_large_patch16_224"};
}

struct VisionSizes {
  int64_t layers, width, heads;
  static constexpr int64_t kImageSize = 224, kPatch = 16;
};
VisionSizes sizes_of(VisionSize size);  // zeros for custom

// The input of the head: the last state of a class token, or the mean over the last states of all patches.
enum class Pooling { class_token, mean };
constexpr std::array<std::string_view, 2> names(Pooling) { return {"class_token", "mean"}; }

struct VisionTransformerConfig {
  static constexpr std::string_view kItem = "image";
  static constexpr bool kHasBlocks = true, kIsGraph = false, kCanFuseHead = false;

  VisionSize size = VisionSize::custom;
  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  int64_t feed_forward = 0;
  int64_t image_size = 0;
  int64_t patch = 0;
  int64_t channels = 3;
  int64_t classes = 0;
  Pooling pooling = Pooling::class_token;
  double dropout = 0;
  double stochastic_depth = 0;
  double layer_scale = 0;
  double label_smoothing = 0;
  double norm_epsilon = 1e-6;

  int64_t items_per_sample() const { return 1; }
  int64_t head_width() const { return width / heads; }
  int64_t feed_forward_or_default() const { return feed_forward == 0 ? 4 * width : feed_forward; }
  int64_t patches() const { return (image_size / patch) * (image_size / patch); }
  int64_t tokens() const { return patches() + (pooling == Pooling::class_token ? 1 : 0); }  // of one image
  ImageSizes image_sizes() const { return {channels, image_size, classes, label_smoothing}; }

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("size", size, "named size of timm; keys that are set override it; custom: every size must be set");
    fields.add("layers", layers, "number of transformer blocks; 0: the value of `size`", configs::between(0, 10000));
    fields.add("width", width, "width of the hidden states; 0: the value of `size`", configs::between(0, 1e6));
    fields.add("heads", heads, "number of attention heads; it must divide width; 0: the value of `size`",
               configs::between(0, 1e5));
    fields.add("feed_forward", feed_forward, "inner width of the MLP; 0: four times width", configs::between(0, 1e7));
    fields.add("image_size", image_size, "height and width of the images; 0: the value of `size`",
               configs::between(0, 65536), "pixels");
    fields.add("patch", patch, "height and width of a patch; it must divide image_size; 0: the value of `size`",
               configs::between(0, 65536), "pixels");
    fields.add("channels", channels, "channels of the images: 1 for gray, 3 for RGB", configs::between(1, 1024));
    fields.require("classes", classes, "number of classes", configs::between(2, 1e8));
    fields.add("pooling", pooling, "input of the head: class_token, or the mean of the last states of all patches");
    fields.add("dropout", dropout,
               "dropout probability after the embedding and at the end of both residual branches; 0: no dropout",
               configs::kBelowOne);
    fields.add("stochastic_depth", stochastic_depth,
               "probability that a sample skips a residual branch of the last block; it grows linearly from 0 in the "
               "first block; 0: off",
               configs::kBelowOne);
    fields.add("layer_scale", layer_scale,
               "initial value of LayerScale, a learned factor on both residual branches; 0: no LayerScale",
               configs::between(0, 1000));
    fields.add("label_smoothing", label_smoothing,
               "label_smoothing of the training loss, as in torch.nn.CrossEntropyLoss; 0: off", configs::kBelowOne);
    fields.add("norm_epsilon", norm_epsilon, "epsilon of the norms, added to the variance", configs::kEpsilon);
    fields.complete([this] { fill_from_size(); });
  }

 private:
  void fill_from_size();
};

void check(const VisionTransformerConfig& model, configs::Checks& checks);
// See model_config.h.
double flops_per_item(const VisionTransformerConfig& model, const std::vector<ParameterGroup>& groups);
std::optional<ModelAttention> attention_of(const VisionTransformerConfig& model);

}  // namespace strata::modules
