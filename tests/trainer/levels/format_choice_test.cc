// SPDX-License-Identifier: MIT
// Which layers keep precision.compute, with times that are made up; and what a run without such times is told.
#include "trainer/levels/format_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/errors.h"
#include "tests/trainer/config/config_texts.h"
#include "trainer/levels/untimed_formats.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {
namespace {

using kernels::Activation;
using kernels::LinearShape;
using modules::DeclaredLinear;
using modules::DeclaredModule;
using modules::LinearFormat;
using modules::LinearFormatsConfig;
using modules::LinearScaling;
using Names = std::vector<std::string>;

const LinearFormatsConfig kFp8{.format = LinearFormat::fp8};

DeclaredModule module_of(const std::string& name, const DeclaredLinear& product) {
  return {.name = name, .group = name.substr(0, 8), .ops = {"linear"}, .product = product};
}

// A layer of GPT-2. Its output projection and its two products of the MLP have the same sizes.
std::vector<DeclaredModule> square_layer(int index) {
  const std::string layer = "blocks." + std::to_string(index) + ".";
  return {module_of(layer + "attention.qkv", {192, 64, true}), module_of(layer + "attention.output", {64, 64, true}),
          module_of(layer + "mlp.up", {64, 64, true, Activation::gelu_tanh}),
          module_of(layer + "mlp.down", {64, 64, true})};
}

std::vector<DeclaredModule> two_layers() {
  std::vector<DeclaredModule> all = square_layer(0);
  for (const DeclaredModule& module : square_layer(1)) all.push_back(module);
  all.push_back({.name = "head", .group = "head", .ops = {"linear"}});
  return all;
}

const std::vector<LinearShape> kShapes = {{512, 64, 192, Activation::none, true},
                                          {512, 64, 64, Activation::none, true},
                                          {512, 64, 64, Activation::gelu_tanh, true},
                                          {512, 64, 1000}};

// The format takes 10 us less for each 64 outputs, and 25 us more.
LinearTimes made_up(const LinearShape& shape, bool uses_format) {
  const double whole = static_cast<double>(shape.outputs);
  return uses_format ? LinearTimes{0.5 * whole + 10, whole + 15}
                     : LinearTimes{0.5 * whole + whole / 12.8, 1.25 * whole};
}

TEST(FormatChoice, KeepsWhatIsNotFaster) {
  Names timed;
  const auto rows =
      time_formats(kFp8, two_layers(), kShapes, [&](const std::string& module, const auto& shape, bool in) {
        timed.push_back(module + " " + shape.text() + (in ? " in format" : ""));
        return made_up(shape, in);
      });
  // Each shape once, in the format and without it, side by side.
  EXPECT_EQ(
      timed,
      (Names{"blocks.0.attention.qkv 512x64->192 bias in format", "blocks.0.attention.qkv 512x64->192 bias",
             "blocks.0.attention.output 512x64->64 bias in format", "blocks.0.attention.output 512x64->64 bias",
             "blocks.0.mlp.up 512x64->64 gelu_tanh bias in format", "blocks.0.mlp.up 512x64->64 gelu_tanh bias"}));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].modules, Names{"attention.qkv"});
  EXPECT_EQ(rows[0].layers, 2);
  EXPECT_EQ(rows[1].modules, (Names{"attention.output", "mlp.down"}));
  EXPECT_EQ(rows[1].layers, 4);
  EXPECT_EQ(rows[2].modules, Names{"mlp.up"});
  EXPECT_EQ(rows[0].format_time(), 313);  // beside 351
  EXPECT_EQ(rows[0].compute_time(), 351);
  EXPECT_TRUE(rows[0].wins());
  EXPECT_FALSE(rows[1].wins());
  EXPECT_EQ(kept_modules(rows), (Names{"attention.output", "mlp.down", "mlp.up"}));
  EXPECT_EQ(gained_microseconds(rows), 2 * (351 - 313));

  // With this `keep` only the rows that win have the format.
  LinearFormatsConfig kept = kFp8;
  kept.keep = kept_modules(rows);
  for (const DeclaredModule& module : two_layers()) {
    if (!module.product) continue;
    EXPECT_EQ(kept.of(module.name).has_value(), module.name.ends_with("qkv")) << module.name;
  }
}

TEST(FormatChoice, AGainAsSmallAsTheErrorOfTimesIsNone) {
  EXPECT_FALSE((FormatRow{.forward = 10, .backward = 88.5, .compute_forward = 50, .compute_backward = 50}.wins()));
  EXPECT_TRUE((FormatRow{.forward = 10, .backward = 87.5, .compute_forward = 50, .compute_backward = 50}.wins()));
}

TEST(FormatChoice, TheTableSaysBothTimesAndWhatStays) {
  const std::vector<FormatRow> rows = {
      {{"attention.qkv"}, "512x64->192 bias", 2, 100, 213, 111, 240},
      {{"attention.output", "mlp.down"}, "512x64->64 bias", 4, 42, 79, 37, 80},
  };
  EXPECT_EQ(format_choice_table(kFp8, "bfloat16", rows),
            "microseconds of a forward and a backward, with the kernels that make operands\n"
            "module                      shape             layers  fp8 current  bfloat16     verdict\n"
            "attention.qkv               512x64->192 bias  2       313.0        351.0        fp8 current\n"
            "attention.output, mlp.down  512x64->64 bias   4       121.0        117.0        stays in bfloat16: not "
            "faster in fp8 current\n");
}

TEST(FormatChoice, NamesLayersWhereTheyDiffer) {
  std::vector<DeclaredModule> modules = {module_of("blocks.0.mlp.up", {64, 64}),
                                         module_of("blocks.1.mlp.up", {192, 64})};
  const std::vector<LinearShape> shapes = {{512, 64, 64}, {512, 64, 192}, {8, 64, 192}};
  const auto time = [](const std::string&, const LinearShape& shape, bool in) { return made_up(shape, in); };
  const auto rows = time_formats(kFp8, modules, shapes, time);
  EXPECT_EQ(kept_modules(rows), Names{"blocks.0.mlp.up"});
  EXPECT_EQ(rows.at(1).shape, "512x64->192");  // and not that of 8 rows
  // A module without the format is not timed.
  LinearFormatsConfig kept = kFp8;
  kept.keep = {"blocks.0"};
  EXPECT_EQ(time_formats(kept, modules, shapes, time).size(), 1u);
  EXPECT_THROW(time_formats(kFp8, modules, {shapes[0]}, time), Error);
}

TEST(FormatChoice, OnlySomeFormatsAreMultiplied) {
  const auto multiplied = [](LinearFormat format, std::optional<LinearScaling> scaling = {}) {
    return is_multiplied({.format = format, .scaling = scaling});
  };
  EXPECT_TRUE(multiplied(LinearFormat::fp8));
  EXPECT_TRUE(multiplied(LinearFormat::fp8, LinearScaling::row));
  EXPECT_TRUE(multiplied(LinearFormat::fp8, LinearScaling::delayed));
  EXPECT_FALSE(multiplied(LinearFormat::fp8, LinearScaling::block));
  EXPECT_FALSE(multiplied(LinearFormat::mxfp8));
  EXPECT_FALSE(multiplied(LinearFormat::none));
}

class UntimedFormats : public testing::Test {
 protected:
  static std::string sentence(const std::string& kernels, const std::string& linear, const std::string& device = "cuda",
                              const std::string& model = kLlamaModel + "}") {
    const LoadedConfig loaded =
        parse_trainer_config("run.yaml",
                             config_with({{1, "run: {folder: runs/test, ranks: 2, device: " + device + "}"},
                                          {5, model},
                                          {9, "precision: {compute: bfloat16, linear: " + linear + "}"},
                                          {11, "kernels: " + kernels}}),
                             {});
    return untimed_formats(loaded, declared_model(loaded.config).modules);
  }
};

TEST_F(UntimedFormats, NarrowLayersAreNamedWithTheCommandThatTimesThem) {
  EXPECT_EQ(sentence("{default: cuda}", "{format: fp8, keep: [mlp.down]}"),
            "precision.linear: fp8 current may be slower than bfloat16 for attention.qkv, attention.output, "
            "mlp.gate_up, because some layers with inputs or outputs below 2048 were measured to be slower; to time "
            "each layer: tools/strata plan run.yaml; kernels.default: best follows it and keeps what is not faster in "
            "bfloat16");
}

TEST_F(UntimedFormats, WideLayersAreNotNamed) {
  const std::string wide =
      "model: {type: transformer, family: llama, layers: 4, width: 2048, heads: 16, feed_forward: 4096, sequence: 32, "
      "vocabulary: 256}";
  EXPECT_EQ(sentence("{default: cuda}", "{format: fp8}", "cuda", wide), "");
}

TEST_F(UntimedFormats, WhatIsEmulatedOrPlannedNeedsNoTimes) {
  EXPECT_EQ(sentence("{default: aten}", "{format: fp8}"), "");
  EXPECT_EQ(sentence("{default: cuda}", "{format: mxfp8}"), "");
  EXPECT_EQ(sentence("{default: cuda}", "{format: fp8, scaling: block, only: mlp.down}"), "");
  EXPECT_EQ(sentence("{default: cuda}", "{format: none}"), "");
  EXPECT_EQ(sentence("{default: cuda}", "{format: fp8}", "cpu"), "");
  EXPECT_EQ(sentence("{default: best}", "{format: fp8}"), "");
  EXPECT_NE(sentence("{default: best, linear: cuda}", "{format: fp8}"), "");
}

}  // namespace
}  // namespace strata::trainer
