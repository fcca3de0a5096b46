// SPDX-License-Identifier: MIT
// Checks the level of each op in each module, resolved from the `kernels:` section.
#include "modules/config/kernel_selection.h"

#include <gtest/gtest.h>

#include "base/errors.h"
#include "tests/modules/kernels_lines.h"

namespace strata::modules {
namespace {

using kernels::Level;

TEST(KernelSelection, LaterLinesWin) {
  EXPECT_EQ(kernels_for(mixed(), "norm").rms_norm, Level::aten);
  EXPECT_EQ(kernels_for(mixed(), "").attention, Level::torchscript);
  EXPECT_EQ(kernels_for(mixed(), "blocks.1.norm1").rms_norm, Level::torchscript);
  EXPECT_EQ(kernels_for(mixed(), "blocks.1.attention").attention, Level::torchscript);
  EXPECT_EQ(kernels_for(mixed(), "blocks.2.norm2").rms_norm, Level::cuda);
  EXPECT_EQ(kernels_for(mixed(), "blocks.2.attention").attention, Level::aten);
  EXPECT_EQ(kernels_for(mixed(), "layers.3.norm").rms_norm, Level::aten);
}

TEST(KernelSelection, LinesForModulesWinOverThoseForLayers) {
  KernelsConfig config;
  config.layers.resize(1);
  config.layers[0].only = {0, 3};
  config.layers[0].levels.linear = Level::cuda;
  add_line(config, "mlp", &OpLevels::linear, Level::torchscript);
  add_line(config, "blocks.1-2.mlp.up", &OpLevels::linear, Level::triton);
  add_line(config, "blocks.2", &OpLevels::rms_norm, Level::triton);
  add_line(config, "head", &OpLevels::linear, Level::aot_inductor);
  EXPECT_EQ(kernels_for(config, "blocks.0.attention.qkv").linear, Level::cuda);
  EXPECT_EQ(kernels_for(config, "blocks.0.mlp.up").linear, Level::torchscript);
  EXPECT_EQ(kernels_for(config, "blocks.1.mlp.up").linear, Level::triton);
  EXPECT_EQ(kernels_for(config, "blocks.1.mlp.down").linear, Level::torchscript);
  EXPECT_EQ(kernels_for(config, "blocks.2.norm1").rms_norm, Level::triton);
  EXPECT_EQ(kernels_for(config, "blocks.2.attention.output").linear, Level::cuda);
  EXPECT_EQ(kernels_for(config, "blocks.3.norm1").rms_norm, Level::aten);
  EXPECT_EQ(kernels_for(config, "head").linear, Level::aot_inductor);
  EXPECT_EQ(kernels_for(config, "").linear, Level::aten);
  add_line(config, "mlp", &OpLevels::linear, Level::aten);
  EXPECT_EQ(kernels_for(config, "blocks.1.mlp.up").linear, Level::aten) << "the last line wins";
  EXPECT_TRUE(has_line_for_head(config));
  EXPECT_FALSE(has_line_for_head(mixed()));
}

TEST(KernelSelection, TheKeyThatDecidesIsThatOfTheLevel) {
  KernelsConfig config;
  config.default_level = Level::cuda;
  EXPECT_EQ(chosen_level(config, "head", "linear").path, "kernels.default");
  config.levels.linear = Level::triton;
  EXPECT_EQ(chosen_level(config, "head", "linear").path, "kernels.linear");
  config.layers.resize(1);
  config.layers[0].only = {0, 3};
  config.layers[0].levels.linear = Level::torchscript;
  EXPECT_EQ(chosen_level(config, "blocks.1.mlp.up", "linear").path, "kernels.layers.0.linear");
  add_line(config, "mlp", &OpLevels::linear, Level::aot_inductor);
  for (const char* module : {"head", "blocks.1.attention.qkv", "blocks.1.mlp.up", "blocks.7.mlp.up"}) {
    EXPECT_EQ(chosen_level(config, module, "linear").level, level_for(config, module, "linear")) << module;
  }
  EXPECT_EQ(chosen_level(config, "blocks.1.mlp.up", "linear").path, "kernels.modules.0.linear");
  EXPECT_EQ(chosen_level(config, "", "linear_cross_entropy").level, std::nullopt) << "only its own key selects it";
  config.default_level = std::nullopt;
  EXPECT_EQ(chosen_level(config, "head", "rms_norm").level, std::nullopt) << "best without a plan";
}

TEST(KernelSelection, BestWithoutAPlanIsRefused) {
  KernelsConfig config;
  config.default_level = std::nullopt;
  config.levels.linear = Level::torchscript;
  EXPECT_THROW(kernels_for(config, "head"), Error);
  config.planned = true;
  EXPECT_EQ(kernels_for(config, "head").linear, Level::torchscript);
  add_line(config, "head", &OpLevels::linear, Level::aten);
  EXPECT_EQ(kernels_for(config, "head").linear, Level::aten) << "a line stands above the plan";
}

TEST(KernelSelection, HeadAndLossStayTwoOpsUntilALineMakesThemOne) {
  KernelsConfig config;
  config.default_level = Level::cuda;
  EXPECT_EQ(kernels_for(config, "").linear_cross_entropy, Level::aten) << "nobody asked for it";
  config.levels.linear_cross_entropy = Level::torchscript;
  EXPECT_EQ(kernels_for(config, "").linear_cross_entropy, Level::torchscript);
}

}  // namespace
}  // namespace strata::modules
