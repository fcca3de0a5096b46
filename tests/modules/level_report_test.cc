// SPDX-License-Identifier: MIT
// Checks the table of levels that a run logs.
#include "modules/config/level_report.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/modules/kernels_lines.h"
#include "trainer/tasks/declared_model.h"

namespace strata::modules {
namespace {

using kernels::Level;

std::vector<DeclaredModule> modules_of(int64_t layers, const LinearFormatsConfig& formats = {}) {
  trainer::TrainerConfig config;
  config.precision.linear = formats;
  config.model.type = TransformerConfig{.layers = layers, .width = 16, .heads = 2, .feed_forward = 32, .tied = false};
  return trainer::declared_model(config).modules;
}

bool has(const std::string& table, const std::string& line) { return table.find(line) != std::string::npos; }

TEST(LevelTable, HasAColumnForEachKindOfLayer) {
  const std::string table = level_table(mixed(), modules_of(6));
  EXPECT_TRUE(has(table, "op                    root            layers 0-1      layers 2        layers 3-5")) << table;
  EXPECT_TRUE(has(table, "rms_norm              aten            torchscript     cuda            aten")) << table;
  EXPECT_TRUE(has(table, "attention             -               torchscript     aten            torchscript")) << table;
}

TEST(LevelTable, HasARowForEachModuleWhereTheyDiffer) {
  KernelsConfig config;
  add_line(config, "mlp", &OpLevels::linear, Level::torchscript);
  add_line(config, "blocks.1.attention.qkv", &OpLevels::linear, Level::cuda);
  add_line(config, "norm", &OpLevels::rms_norm, Level::triton);
  const std::string table = level_table(config, modules_of(3));
  const auto line = [](const std::string& op, const std::string& rest) {
    return "\n" + op + std::string(27 - op.size(), ' ') + rest;
  };
  EXPECT_TRUE(table.starts_with("op                         root            layers 0        layers 1        layers 2"))
      << table;
  for (const auto& [op, rest] : std::vector<std::pair<std::string, std::string>>{
           {"linear (attention.qkv)", "-               aten            cuda            aten"},
           {"linear (attention.output)", "-               aten            aten            aten"},
           {"linear (mlp.gate_up)", "-               torchscript     torchscript     torchscript"},
           {"linear (mlp.down)", "-               torchscript     torchscript     torchscript"},
           {"linear (head)", "aten            -               -               -"},
           {"rms_norm", "triton          aten            aten            aten"}}) {
    EXPECT_TRUE(has(table, line(op, rest))) << op << " in\n" << table;
  }
  // The table has no ops of other models.
  for (const char* op : {"layer_norm", "dropout", "neighbor_aggregate", "linear_cross_entropy"}) {
    EXPECT_FALSE(has(table, std::string("\n") + op)) << table;
  }
}

TEST(LevelTable, HasOneRowForHeadAndLossThatAreOneOp) {
  KernelsConfig config;
  config.levels.linear_cross_entropy = Level::torchscript;
  std::vector<DeclaredModule> modules = modules_of(2);
  modules[0].ops = {"linear_cross_entropy"};
  EXPECT_TRUE(has(level_table(config, modules), "\nlinear_cross_entropy  torchscript     -"));
}

std::string table_in_format(const LinearFormatsConfig& formats, int64_t layers, const KernelsConfig& kernels = {}) {
  return format_table(kernels, formats, modules_of(layers));
}

TEST(FormatTable, SaysWhichProductsHaveAFormat) {
  EXPECT_EQ(table_in_format({}, 3), "");
  const std::string table = table_in_format({.format = LinearFormat::mxfp8, .keep = {"blocks.0", "mlp.down"}}, 4);
  for (const char* line : {"number format              root              layers 0          layers 1-3",
                           "\nlinear (attention.qkv)     -                 none              mxfp8 (emulated)",
                           "\nlinear (attention.output)  -                 none              mxfp8 (emulated)",
                           "\nlinear (mlp.gate_up)       -                 none              mxfp8 (emulated)",
                           "\nlinear (mlp.down)          -                 none              none"}) {
    EXPECT_TRUE(has(table, line)) << line << " in\n" << table;
  }
}

TEST(FormatTable, SaysWhichProductsAreEmulated) {
  KernelsConfig cuda;
  cuda.default_level = Level::cuda;
  const LinearFormatsConfig fp8 = {.format = LinearFormat::fp8};
  EXPECT_TRUE(has(table_in_format(fp8, 2, cuda), "fp8 current"));
  EXPECT_FALSE(has(table_in_format(fp8, 2, cuda), "emulated"));
  EXPECT_TRUE(has(table_in_format(fp8, 2), "fp8 current (emulated)"));
  const LinearFormatsConfig by_row = {.format = LinearFormat::fp8, .scaling = LinearScaling::row};
  const LinearFormatsConfig by_block = {.format = LinearFormat::fp8, .scaling = LinearScaling::block};
  EXPECT_TRUE(has(table_in_format(by_row, 2, cuda), "fp8 row"));
  EXPECT_FALSE(has(table_in_format(by_row, 2, cuda), "emulated"));
  EXPECT_TRUE(has(table_in_format(by_row, 2), "fp8 row (emulated)"));
  EXPECT_TRUE(has(table_in_format(by_block, 2, cuda), "fp8 block (emulated)"));
  add_line(cuda, "mlp.down", &OpLevels::linear, Level::triton);
  const std::string table = table_in_format(fp8, 2, cuda);
  EXPECT_TRUE(has(table, "\nlinear (mlp.down)          -                       fp8 current (emulated)")) << table;
  EXPECT_TRUE(has(table, "\nlinear (mlp.gate_up)       -                       fp8 current  ")) << table;
}

TEST(FormatTable, SaysWhichGpusMultiplyBlocks) {
  KernelsConfig cuda;
  cuda.default_level = Level::cuda;
  const kernels::Gpu h100 = {"NVIDIA H100 80GB HBM3", 90}, b200 = {"NVIDIA B200", 100}, rtx = {"NVIDIA RTX 5090", 120};
  const auto table = [](const KernelsConfig& config, LinearFormat format, const std::optional<kernels::Gpu>& gpu) {
    const DeclaredModule up = {.name = "blocks.0.up", .group = "blocks.0", .product = DeclaredLinear{64, 32}};
    return format_table(config, {.format = format}, {up}, gpu);
  };
  const std::string capability = "\nmxfp8 at level cuda runs on GPUs of compute capability 10.0 or later";
  const std::string on_hopper = table(cuda, LinearFormat::mxfp8, h100);
  EXPECT_TRUE(has(on_hopper, "mxfp8 (emulated)")) << on_hopper;
  EXPECT_TRUE(on_hopper.ends_with(capability + ", and this NVIDIA H100 80GB HBM3 has 9.0; emulated instead\n"))
      << on_hopper;
  EXPECT_TRUE(has(table(cuda, LinearFormat::nvfp4, h100), "\nnvfp4 at level cuda runs on GPUs of compute"));
  EXPECT_FALSE(has(table(cuda, LinearFormat::nvfp4, b200), "emulated"));
  const std::string anywhere = table(cuda, LinearFormat::mxfp8, {});
  EXPECT_TRUE(has(anywhere, "mxfp8 (emulated)")) << anywhere;
  EXPECT_TRUE(anywhere.ends_with(capability + "; emulated on others\n")) << anywhere;
  for (const kernels::Gpu& gpu : {b200, rtx}) {
    const std::string there = table(cuda, LinearFormat::mxfp8, gpu);
    EXPECT_TRUE(has(there, "  mxfp8  ")) << there;
    EXPECT_FALSE(has(there, "emulated") || has(there, "capability")) << there;
    // Another level and another format have no such products anywhere, and no reason is given.
    for (const std::string& other : {table({}, LinearFormat::mxfp8, gpu), table(cuda, LinearFormat::mxfp6, gpu),
                                     table(cuda, LinearFormat::mxfp4, h100), table({}, LinearFormat::mxfp8, h100)}) {
      EXPECT_TRUE(has(other, " (emulated)") && !has(other, "capability")) << other;
    }
  }
}

std::string table_of_pruned(const std::string& only, const KernelsConfig& kernels, bool in_bfloat16,
                            const std::vector<DeclaredModule>& modules = modules_of(3),
                            kernels::PruneMask mask = kernels::PruneMask::rows) {
  const SparsityConfig sparsity = {.pattern = SparsityPattern::two_of_four, .mask = mask, .only = only};
  return sparsity_table(kernels, sparsity, modules, [&](const std::string&) { return in_bfloat16; });
}

TEST(SparsityTable, SaysWhichWeightsArePruned) {
  EXPECT_EQ(sparsity_table({}, {}, modules_of(3), [](const std::string&) { return true; }), "");
  const std::string table = table_of_pruned("blocks.1-2.mlp", {}, true);
  for (const char* line : {"sparsity                   root            layers 0        layers 1-2",
                           "\nlinear (attention.qkv)     -               none            none",
                           "\nlinear (mlp.down)          -               none            2:4 (emulated)"}) {
    EXPECT_TRUE(has(table, line)) << line << " in\n" << table;
  }
}

TEST(SparsityTable, SaysWhatIsEmulatedAndWhy) {
  KernelsConfig cuda;
  cuda.default_level = Level::cuda;
  const std::string sparse = table_of_pruned("blocks", cuda, true);
  EXPECT_TRUE(has(sparse, "2:4 (backward emulated)")) << sparse;
  EXPECT_FALSE(has(sparse, "(emulated)") || has(sparse, "because")) << sparse;
  const std::string both = table_of_pruned("blocks", cuda, true, modules_of(3), kernels::PruneMask::transposable);
  EXPECT_TRUE(has(both, "\nlinear                -               2:4  ")) << both;
  EXPECT_TRUE(both.ends_with("\nproducts of fewer than 40960 rows multiply with the zeros\n")) << both;
  EXPECT_FALSE(has(both, "emulated")) << both;
  EXPECT_TRUE(
      table_of_pruned("blocks", cuda, false).ends_with("\nemulated, because sparse tensor cores need bfloat16\n"));
  EXPECT_TRUE(table_of_pruned("blocks", {}, true)
                  .ends_with("\nemulated, because sparse tensor cores need level cuda of op linear\n"));
  const auto with_widths = [&](int64_t outputs, int64_t inputs) {
    return table_of_pruned("blocks", cuda, true,
                           {{.name = "blocks.0.up", .group = "blocks.0", .product = DeclaredLinear{outputs, inputs}}});
  };
  EXPECT_FALSE(has(with_widths(48, 16), "(emulated)"));
  EXPECT_TRUE(with_widths(40, 16).ends_with(
      "\nemulated, because sparse tensor cores need multiples of 16, and up has 16 inputs and 40 outputs\n"));
  EXPECT_TRUE(has(with_widths(48, 24), "and up has 24 inputs and 48 outputs"));
  // Levels of modules count.
  add_line(cuda, "mlp.down", &OpLevels::linear, Level::triton);
  const std::string mixed_levels = table_of_pruned("mlp", cuda, true);
  EXPECT_TRUE(has(mixed_levels, "\nlinear (mlp.down)          -                        2:4 (emulated)"))
      << mixed_levels;
  EXPECT_TRUE(has(mixed_levels, "2:4 (backward emulated)")) << mixed_levels;
}

TEST(FormatTable, WidthsMayLeaveOnlyTheEmulation) {
  KernelsConfig cuda;
  cuda.default_level = Level::cuda;
  const LinearFormatsConfig fp8 = {.format = LinearFormat::fp8};
  const auto table = [&](int64_t outputs, int64_t inputs) {
    return format_table(cuda, fp8,
                        {{.name = "blocks.0.up", .group = "blocks.0", .product = DeclaredLinear{outputs, inputs}}});
  };
  EXPECT_FALSE(has(table(48, 16), "emulated"));
  EXPECT_TRUE(has(table(40, 16), "emulated"));
  EXPECT_TRUE(has(table(48, 24), "emulated"));
}

}  // namespace
}  // namespace strata::modules
