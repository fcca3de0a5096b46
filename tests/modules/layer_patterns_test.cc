// SPDX-License-Identifier: MIT
// Layers with the same pattern are found together, and are written as a configuration names them.
#include "modules/config/layer_patterns.h"

#include <gtest/gtest.h>

namespace strata::modules {
namespace {

TEST(LayersByPattern, EachLayerOnceInTheOrderOfTheFirst) {
  TransformerConfig model = {.layers = 6, .attention = "causal & window(4)"};
  model.differing_layers = {{.only = {0, 4, 2}, .attention = "causal"},
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
  model.differing_layers = {{.only = {0, 5}, .rotary_base = 1e4},
                            {.only = {2, 5, 3}, .attention = "full"},
                            {.only = {3, 3}, .rotary_base = 1e6, .rotary_scaling = model.rotary_scaling}};
  std::vector<LayersOfRotary> all = layers_by_rotary(model);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].rotary, (Rotary{.base = 1e4}));
  EXPECT_EQ(all[0].layers, (std::vector<int64_t>{0, 1, 2, 4, 5}));
  EXPECT_EQ(all[1].rotary, (Rotary{1e6, model.rotary_scaling}));
  EXPECT_EQ(all[1].layers, (std::vector<int64_t>{3}));
  model.differing_layers[2].rotary_scaling.factor = 4;
  all = layers_by_rotary(model);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_NE(all[1].rotary, (Rotary{1e6, model.rotary_scaling}));
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
