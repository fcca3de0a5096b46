// SPDX-License-Identifier: MIT
#include "tools/hf/timm.h"

#include <cmath>
#include <regex>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/text/joined.h"
#include "base/text/word_of.h"
#include "configs/value.h"

namespace strata::hf {
namespace {

using modules::Pooling;
using modules::VisionSize;
using modules::VisionSizes;
using modules::VisionTransformerConfig;
using OrderedJson = nlohmann::ordered_json;

constexpr double kNormEpsilon = 1e-6;  // all of timm's models use it, and there is no key for another

// The limits of `model:`; products of these values fit into 64 bits.
constexpr int64_t kMostPixels = 65536, kMostChannels = 1024;
constexpr double kMostRatio = 1000;

// Returns the first named size that `fits`, or custom if there is none.
template <class Fits>
VisionSize find_size(const Fits& fits) {
  const auto all = names(VisionSize{});
  for (size_t i = 1; i < all.size(); ++i) {
    if (fits(static_cast<VisionSize>(i), all[i])) return static_cast<VisionSize>(i);
  }
  return VisionSize::custom;
}

// Reads names such as vit_base_patch16_224, with other sizes, patches and images.
VisionTransformerConfig read_architecture(const JsonSection& json) {
  static const std::regex pattern("(vit_(?:tiny|small|base|large)_patch)([1-9][0-9]{0,3})_([1-9][0-9]{0,4})");
  const std::string name = json.text("architecture");
  std::smatch found;
  if (!std::regex_match(name, found, pattern)) {
    throw json.refuse("architecture", "vit_{tiny,small,base,large}_patch<pixels>_<pixels>");
  }
  VisionTransformerConfig model;
  const VisionSizes sizes =
      sizes_of(find_size([&](VisionSize, std::string_view other) { return other.starts_with(found[1].str()); }));
  model.layers = sizes.layers;
  model.width = sizes.width;
  model.heads = sizes.heads;
  model.patch = std::stoll(found[2]);
  model.image_size = std::stoll(found[3]);
  model.classes = 1000;
  model.norm_epsilon = kNormEpsilon;
  return model;
}

// Reads one number, or a list of the same number twice.
int64_t side(const JsonSection& json, const char* key) {
  if (!json.is_list(key)) return json.count(key, kMostPixels);
  const std::vector<int64_t> sides = json.counts(key, kMostPixels);
  if (sides.size() != 2 || sides[0] != sides[1]) throw json.refuse(key, "a square");
  return sides[0];
}

Pooling read_pooling(const JsonSection& json) {
  const std::string pooling = json.text("global_pool");
  if (pooling != "token" && pooling != "avg") throw json.refuse("global_pool", "\"token\" or \"avg\"");
  return pooling == "avg" ? Pooling::mean : Pooling::class_token;
}

void read_preprocessing(const JsonSection& json, VisionTransformerConfig& model) {
  if (json.has("input_size")) {
    const std::vector<int64_t> sizes = json.counts("input_size", kMostPixels);
    if (sizes.size() != 3 || sizes[0] > kMostChannels || sizes[1] != sizes[2]) {
      throw json.refuse("input_size", "[channels, side, side]");
    }
    model.channels = sizes[0];
    if (json.flag("fixed_input_size", false)) model.image_size = sizes[1];
  }
  if (json.has("num_classes")) model.classes = json.count("num_classes");
}

void read_arguments(const JsonSection& json, VisionTransformerConfig& model) {
  double ratio = 4;
  for (const std::string& name : json.keys()) {
    const char* key = name.c_str();
    if (!json.has(key) || name == "class_token" || name == "fc_norm") continue;
    if (name == "img_size") {
      model.image_size = side(json, key);
    } else if (name == "patch_size") {
      model.patch = side(json, key);
    } else if (name == "in_chans") {
      model.channels = json.count(key, kMostChannels);
    } else if (name == "num_classes") {
      model.classes = json.count(key);
    } else if (name == "embed_dim") {
      model.width = json.count(key, kMostWidth);
    } else if (name == "depth") {
      model.layers = json.count(key, kMostLayers);
    } else if (name == "num_heads") {
      model.heads = json.count(key, kMostHeads);
    } else if (name == "mlp_ratio") {
      ratio = json.positive(key);
      if (ratio > kMostRatio) throw json.refuse(name, "a number up to 1000");
    } else if (name == "init_values") {
      model.layer_scale = json.number(key, {.minimum = 0, .maximum = 1000});
    } else if (name == "global_pool") {
      model.pooling = read_pooling(json);
    } else if (name == "drop_path_rate") {
      model.stochastic_depth = json.share(key);
    } else if (name == "qkv_bias" || name == "proj_bias") {
      json.expect(key, true);
    } else if (name == "pre_norm" || name == "no_embed_class" || name == "qk_norm") {
      json.expect(key, false);
    } else if (name == "reg_tokens") {
      json.expect(key, 0);
    } else if (name != "weight_init" && name != "fix_init" && name != "dynamic_img_size") {
      throw json.refuse(name, "no such key, because vision transformers of Strata do not have this part");
    }
  }
  // timm rounds width x ratio down.
  if (ratio != 4) model.feed_forward = static_cast<int64_t>(static_cast<double>(model.width) * ratio);
  if (ratio != 4 && model.feed_forward == 0) throw json.refuse("mlp_ratio", "a larger number");
}

// timm uses a class token by default. In Strata, models with mean pooling have no class token.
void check_pooling(const JsonSection& json, Pooling pooling) {
  if (pooling == Pooling::class_token) {
    json.expect("class_token", true);
    return;
  }
  json.expect("class_token", false);
  json.expect("fc_norm", false);
  for (const char* key : {"class_token", "fc_norm"}) {
    if (!json.has(key)) throw json.refuse(key, "false, because of global_pool \"avg\"");
  }
}

}  // namespace

std::string write_config(const VisionTransformerConfig& model, const PixelValues& pixels) {
  if (model.norm_epsilon != kNormEpsilon) {
    throw Error(ExitCode::configuration, "timm's vision transformers have model.norm_epsilon 1e-6, and no other");
  }
  const bool mean = model.pooling == Pooling::mean;
  const std::string pooling = mean ? "avg" : "token";
  // timm rounds width x ratio down, so a ratio that gives too small a width is increased to the next double.
  const double ratio = static_cast<double>(model.feed_forward_or_default()) / static_cast<double>(model.width);
  const bool exact = static_cast<int64_t>(static_cast<double>(model.width) * ratio) == model.feed_forward_or_default();
  OrderedJson arguments = {{"img_size", model.image_size},
                           {"patch_size", model.patch},
                           {"in_chans", model.channels},
                           {"num_classes", model.classes},
                           {"embed_dim", model.width},
                           {"depth", model.layers},
                           {"num_heads", model.heads},
                           {"mlp_ratio", exact ? ratio : std::nextafter(ratio, 2 * ratio)},
                           {"global_pool", pooling},
                           {"class_token", !mean},
                           {"drop_path_rate", model.stochastic_depth}};
  if (mean) arguments["fc_norm"] = false;
  if (model.layer_scale > 0) arguments["init_values"] = model.layer_scale;
  const OrderedJson preprocessing = {{"input_size", {model.channels, model.image_size, model.image_size}},
                                     {"fixed_input_size", true},
                                     {"interpolation", "bicubic"},
                                     {"crop_pct", pixels.crop},
                                     {"mean", pixels.mean},
                                     {"std", pixels.deviation},
                                     {"num_classes", model.classes},
                                     {"pool_size", nullptr},
                                     {"first_conv", "patch_embed.proj"},
                                     {"classifier", "head"}};
  const VisionSize size = find_size([&](VisionSize other, std::string_view) {
    return sizes_of(other).layers == model.layers && sizes_of(other).width == model.width;
  });
  // The name hardly matters, because all sizes are in model_args.
  const VisionSize named = size == VisionSize::custom ? VisionSize::vit_base_patch16_224 : size;
  const OrderedJson json = {{"architecture", word_of(named)},     {"num_classes", model.classes},
                            {"num_features", model.width},        {"global_pool", pooling},
                            {"model_args", std::move(arguments)}, {"pretrained_cfg", preprocessing}};
  return json.dump(2) + "\n";
}

VisionTransformerConfig read_timm_config(const JsonSection& json) {
  VisionTransformerConfig model = read_architecture(json);
  if (json.has("pretrained_cfg")) read_preprocessing(json.section("pretrained_cfg"), model);
  if (json.has("num_classes")) model.classes = json.count("num_classes");
  if (json.has("global_pool")) model.pooling = read_pooling(json);
  const nlohmann::json none = nlohmann::json::object();
  const JsonSection arguments =
      json.has("model_args") ? json.section("model_args") : JsonSection(none, json.path() + ": model_args");
  read_arguments(arguments, model);
  check_pooling(arguments, model.pooling);
  if (model.width % model.heads != 0 || model.image_size % model.patch != 0) {
    throw Error(ExitCode::data, json.path() + ": " + std::to_string(model.heads) + " heads do not divide the width " +
                                    std::to_string(model.width) + ", or patches of " + std::to_string(model.patch) +
                                    " the images of " + std::to_string(model.image_size) + " pixels");
  }
  return model;
}

std::string keys_of_pixels(const std::string& config, const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(config);
  const JsonSection whole(json, path);
  if (!whole.has("pretrained_cfg")) return "";
  const JsonSection section = whole.section("pretrained_cfg");
  if (!section.has("mean") || !section.has("std")) return "";
  std::string text;
  for (const auto& [key, name] : {std::pair("mean", "mean"), std::pair("std", "deviation")}) {
    std::vector<double> numbers = section.numbers(key);
    if (numbers.size() == 1) numbers.resize(3, numbers[0]);  // gray images use the first
    const std::string list = joined(numbers, ", ", [](double number) { return configs::to_text(number); });
    text += (text.empty() ? "" : ", ") + std::string(name) + ": [" + list + "]";
  }
  if (section.has("crop_pct")) text += ", crop: " + configs::to_text(section.positive("crop_pct"));
  return text;
}

std::string model_section(const VisionTransformerConfig& model) {
  std::ostringstream text;
  text << "model: {type: vision_transformer, layers: " << model.layers << ", width: " << model.width
       << ", heads: " << model.heads << ", feed_forward: " << model.feed_forward_or_default()
       << ", image_size: " << model.image_size << ", patch: " << model.patch << ", channels: " << model.channels
       << ", classes: " << model.classes << ", pooling: " << word_of(model.pooling);
  if (model.stochastic_depth > 0) text << ", stochastic_depth: " << configs::to_text(model.stochastic_depth);
  if (model.layer_scale > 0) text << ", layer_scale: " << configs::to_text(model.layer_scale);
  text << ", norm_epsilon: " << configs::to_text(model.norm_epsilon) << "}\n";
  return text.str();
}

}  // namespace strata::hf
