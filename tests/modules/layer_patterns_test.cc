// SPDX-License-Identifier: MIT
// Layers with the same pattern are found together, and are written as a configuration names them.
#include "modules/config/layer_patterns.h"

#include <gtest/gtest.h>

namespace strata::modules {
namespace {

TEST(LayersByPattern, EachLayerOnceInTheOrderOfTheFirst) {
  TransformerConfig model = {.layers = 6, .attention = "causal & window(4)"};
  model.layer_overrides = {{.only = {0, 4, 2}, .attention = "causal"},
                           {.only = {4, 4}, .attention = "causal&window( 4 )"}};
  const std::vector<LayersOfPattern> all = layers_by_pattern(model);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(to_text(all[0].pattern), "causal");
  EXPECT_EQ(all[0].layers, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(to_text(all[1].pattern), "causal & window(4)");
  EXPECT_EQ(all[1].layers, (std::vector<int64_t>{1, 3, 4, 5}));
}

TEST(LayersByRotary, AnEntryReplacesBaseAndScaling) {
  TransformerConfig model = {
      .layers = 6, .rotary_base = 1e6, .rotary_scaling = {.type = RotaryScalingType::linear, .factor = 8}};
  model.layer_overrides = {{.only = {0, 5}, .rotary_base = 1e4},
                           {.only = {2, 5, 3}, .attention = "full"},
                           {.only = {3, 3}, .rotary_base = 1e6, .rotary_scaling = model.rotary_scaling}};
  std::vector<LayersOfRotary> all = layers_by_rotary(model);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].rotary, (Rotary{.base = 1e4}));
  EXPECT_EQ(all[0].layers, (std::vector<int64_t>{0, 1, 2, 4, 5}));
  EXPECT_EQ(all[1].rotary, (Rotary{1e6, model.rotary_scaling}));
  EXPECT_EQ(all[1].layers, (std::vector<int64_t>{3}));
  model.layer_overrides[2].rotary_scaling.factor = 4;
  all = layers_by_rotary(model);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_NE(all[1].rotary, (Rotary{1e6, model.rotary_scaling}));
}

TEST(ModelAttention, EachFamilySaysWhatItComputes) {
  const TransformerConfig language = {
      .layers = 2, .heads = 4, .head_width = 48, .sequence = 32, .attention = "causal & window(4)", .softcap = 50};
  const std::optional<ModelAttention> language_attention = attention_of(ModelConfig{.type = language});
  ASSERT_TRUE(language_attention);
  EXPECT_EQ(language_attention->layers, 2);
  EXPECT_EQ(language_attention->head_width, 48);
  EXPECT_EQ(language_attention->positions, 32);
  EXPECT_EQ(language_attention->terms.softcap, 50);
  ASSERT_EQ(language_attention->patterns.size(), 1u);
  EXPECT_EQ(to_text(language_attention->patterns[0].pattern), "causal & window(4)");
  EXPECT_EQ(language_attention->rotary.size(), 1u);

  const VisionTransformerConfig images = {.layers = 3, .width = 96, .heads = 2, .image_size = 32, .patch = 8};
  const std::optional<ModelAttention> image_attention = attention_of(ModelConfig{.type = images});
  ASSERT_TRUE(image_attention);
  EXPECT_EQ(image_attention->layers, 3);
  EXPECT_EQ(image_attention->head_width, 48);
  EXPECT_EQ(image_attention->positions, 17) << "16 patches and the class token";
  EXPECT_TRUE(image_attention->patterns.empty()) << "no key sets a pattern";

  EXPECT_FALSE(attention_of(ModelConfig{.type = MixerConfig{}}));
  EXPECT_FALSE(attention_of(ModelConfig{.type = GraphNetworkConfig{}}));
}

TEST(LayersText, IsThatOfAConfiguration) {
  const auto text = [](std::vector<int64_t> layers) { return layers_text(layers); };
  EXPECT_EQ(text({3}), "layer 3");
  EXPECT_EQ(text({0, 1, 2, 3}), "layers 0-3");
  EXPECT_EQ(text({0, 1}), "layers 0-1");
  EXPECT_EQ(text({0, 2, 4, 6}), "layers 0-6 step 2");
  EXPECT_EQ(text({0, 2}), "layers 0, 2");
  EXPECT_EQ(text({1, 3, 4, 5, 10}), "layers 1, 3-5, 10");
  EXPECT_EQ(text({0, 1, 2, 3, 4, 6, 7, 8, 9, 10}), "layers 0-4, 6-10");
}

}  // namespace
}  // namespace strata::modules
