// SPDX-License-Identifier: MIT
// Checks which modules a name in a configuration means.
#include "modules/config/module_name.h"

#include <gtest/gtest.h>

namespace strata::modules {
namespace {

TEST(ModuleName, KnowsItsLayer) {
  EXPECT_EQ(layer_of("blocks.12.attention.qkv"), 12);
  EXPECT_EQ(layer_of("layers.0"), 0);
  EXPECT_EQ(layer_of("head"), std::nullopt);
  EXPECT_EQ(layer_of("pooling.gate"), std::nullopt);
  EXPECT_EQ(layer_of(""), std::nullopt);
  EXPECT_EQ(name_in_layer("blocks.12.attention.qkv"), "attention.qkv");
  EXPECT_EQ(name_in_layer("blocks.12"), "");
  EXPECT_EQ(name_in_layer("pooling.gate"), "pooling.gate");
}

TEST(ModuleName, IsJoinedOfAModuleAndItsPart) {
  EXPECT_EQ(joined_name("blocks.12", "attention.qkv"), "blocks.12.attention.qkv");
  EXPECT_EQ(joined_name("blocks.12", ""), "blocks.12");
  EXPECT_EQ(joined_name("", "head"), "head");
  EXPECT_EQ(joined_name("", ""), "");
}

TEST(ModuleName, CoversAModuleAndItsParts) {
  for (const char* name : {"blocks.3.mlp.up", "blocks.3.mlp", "blocks.3", "blocks", "mlp.up", "mlp", "blocks.0-3.mlp",
                           "blocks.3-3.mlp.up", "blocks.2-10"}) {
    EXPECT_TRUE(covers(name, "blocks.3.mlp.up")) << name;
  }
  for (const char* name : {"",
                           "up",
                           "mlp.u",
                           "mlp.up.weight",
                           "mlp.down",
                           "ml",
                           "blocks.30.mlp",
                           "blocks.4.mlp",
                           "block",
                           "blocks.0-2.mlp",
                           "blocks.4-9",
                           "blocks.3-0",
                           "blocks.3.",
                           "blocks.",
                           "blocks.3.up",
                           "layers.3.mlp",
                           "blocks.-3",
                           "blocks.3-",
                           "3.mlp",
                           "mlp."}) {
    EXPECT_FALSE(covers(name, "blocks.3.mlp.up")) << name;
  }
  EXPECT_TRUE(covers("head", "head"));
  EXPECT_TRUE(covers("pooling", "pooling.gate"));
  EXPECT_FALSE(covers("pooling.gate", "pooling"));
  EXPECT_FALSE(covers("mlp", "blocks.3"));
  EXPECT_TRUE(covers("blocks.3", "blocks.3"));
  EXPECT_FALSE(covers("norm", "blocks.3.norm1"));
  EXPECT_FALSE(covers("", ""));
}

TEST(ModuleName, SaysItsLayersToTheErrors) {
  EXPECT_EQ(layers_in("blocks.2-9.mlp"), (configs::Range{2, 9}));
  EXPECT_EQ(layers_in("blocks.2"), (configs::Range{2, 2}));
  EXPECT_EQ(layers_in("mlp.up"), std::nullopt);
  EXPECT_EQ(layers_in("blocks.99999999999999999999"), std::nullopt);
}

}  // namespace
}  // namespace strata::modules
