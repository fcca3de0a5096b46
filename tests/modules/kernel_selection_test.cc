// SPDX-License-Identifier: MIT
// Which level runs where, resolved from the `kernels:` section.
#include "modules/kernel_selection.h"

#include <gtest/gtest.h>

#include "configs/errors.h"

namespace strata::modules {
namespace {

using kernels::Level;

KernelsConfig mixed() {
  KernelsConfig config;
  config.levels.attention = Level::torchscript;
  config.layers.resize(2);
  config.layers[0].only = {0, 2};
  config.layers[0].levels.rms_norm = Level::torchscript;
  config.layers[1].only = {2, 2};
  config.layers[1].levels.rms_norm = Level::cuda;
  config.layers[1].levels.attention = Level::aten;
  return config;
}

TEST(KernelSelection, LaterLinesWin) {
  EXPECT_EQ(kernels_for_root(mixed()).rms_norm, Level::aten);
  EXPECT_EQ(kernels_for_root(mixed()).attention, Level::torchscript);
  EXPECT_EQ(kernels_for_layer(mixed(), 1).rms_norm, Level::torchscript);
  EXPECT_EQ(kernels_for_layer(mixed(), 1).attention, Level::torchscript);
  EXPECT_EQ(kernels_for_layer(mixed(), 2).rms_norm, Level::cuda);
  EXPECT_EQ(kernels_for_layer(mixed(), 2).attention, Level::aten);
  EXPECT_EQ(kernels_for_layer(mixed(), 3).rms_norm, Level::aten);
}

TEST(KernelSelection, TableHasAColumnForEachKindOfLayer) {
  const std::string table = kernel_table(mixed(), 6);
  EXPECT_NE(table.find("op                    root            layers 0-1      layers 2        layers 3-5"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("rms_norm              aten            torchscript     cuda            aten"), std::string::npos)
      << table;
}

TEST(KernelSelection, BestWithoutAPlanIsRefused) {
  KernelsConfig config;
  config.default_level = std::nullopt;
  config.levels.linear = Level::torchscript;
  EXPECT_THROW(kernels_for_root(config), Error);
  config.planned = true;
  EXPECT_EQ(kernels_for_root(config).linear, Level::torchscript);
}

TEST(KernelSelection, TableHasNoLevelOfWhatNobodyAsksFor) {
  KernelsConfig config;
  config.default_level = Level::cuda;
  // Head and loss stay two ops, whatever their levels, until a line makes them one.
  EXPECT_NE(kernel_table(config, 2).find("linear_cross_entropy  -               -"), std::string::npos);
  config.levels.linear_cross_entropy = Level::aten;
  EXPECT_NE(kernel_table(config, 2).find("linear_cross_entropy  aten            aten"), std::string::npos);
  config = {.default_level = std::nullopt, .planned = true};
  config.levels.linear = Level::triton;
  EXPECT_NE(kernel_table(config, 2).find("linear                triton          triton"), std::string::npos);
  EXPECT_NE(kernel_table(config, 2).find("rotary                -               -"), std::string::npos);
}

}  // namespace
}  // namespace strata::modules
