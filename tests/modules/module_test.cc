// SPDX-License-Identifier: MIT
// Checks that every parameter belongs to a module with the same group.
#include "modules/config/module.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "trainer/tasks/declared_model.h"

namespace strata::modules {
namespace {

std::vector<ModelConfig> models() {
  std::vector<ModelConfig> all;
  const auto add = [&](auto model) { all.push_back({.type = model}); };
  for (const Family family : {Family::gpt2, Family::llama}) {
    for (const bool tied : {true, false}) {
      add(TransformerConfig{.family = family,
                            .layers = 2,
                            .width = 8,
                            .heads = 2,
                            .feed_forward = 12,
                            .sequence = 4,
                            .vocabulary = 5,
                            .tied = tied});
    }
  }
  for (const Pooling pooling : {Pooling::class_token, Pooling::mean}) {
    VisionTransformerConfig vision;
    vision.layers = 2, vision.width = 8, vision.heads = 2, vision.image_size = 4, vision.patch = 2, vision.channels = 1;
    vision.classes = 3, vision.pooling = pooling, vision.layer_scale = 0.5;
    add(vision);
  }
  using Kind = GraphConvolutionKind;
  for (const Kind kind : {Kind::sage, Kind::gcn, Kind::gin, Kind::gat}) {
    for (const InputProjection projection : {InputProjection::none, InputProjection::dense, InputProjection::sparse}) {
      for (const NodePooling pooling : {NodePooling::none, NodePooling::mean, NodePooling::attention}) {
        add(GraphNetworkConfig{.convolution = kind,
                               .projection = projection,
                               .pooling = pooling,
                               .features = 6,
                               .layers = 3,
                               .width = 8,
                               .classes = 4,
                               .norm = true});
      }
    }
  }
  return all;
}

TEST(Module, HasTheModuleOfEachParameterInItsGroup) {
  for (const ModelConfig& model : models()) {
    std::map<std::string, std::string> group_of;
    trainer::TrainerConfig config;
    config.model = model;
    const trainer::DeclaredModel declared = trainer::declared_model(config);
    for (const DeclaredModule& module : declared.modules) {
      if (module.name.empty()) continue;
      EXPECT_TRUE(group_of.emplace(module.name, module.group).second) << module.name << " is there twice";
    }
    const std::vector<ParameterGroup>& table = declared.groups;
    for (const ParameterGroup& group : table) {
      for (const Parameter& parameter : group.parameters) {
        const std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
        ASSERT_TRUE(group_of.contains(module)) << parameter.name;
        EXPECT_EQ(group_of[module], group.name) << parameter.name;
      }
    }
    const auto has_group = [&](const std::string& name) {
      return std::any_of(table.begin(), table.end(), [&](const ParameterGroup& group) { return group.name == name; });
    };
    for (const auto& [module, group] : group_of) EXPECT_TRUE(has_group(group)) << module << " is in " << group;
  }
}

std::string problem_of(const std::string& name) {
  trainer::TrainerConfig config;
  config.model = models().at(1);
  return problem_of_module(name, trainer::declared_model(config).modules);
}

TEST(Module, SaysWhatIsWrongWithAName) {
  for (const char* good : {"head", "norm", "mlp", "attention.qkv", "blocks", "blocks.1", "blocks.0-1.mlp.up"}) {
    EXPECT_EQ(problem_of(good), "") << good;
  }
  const std::string expected =
      "expected a module of this model (embedding, position, norm1, attention, attention.qkv, attention.output, norm2, "
      "mlp, mlp.up, mlp.down, norm, head), alone or behind its layer (blocks.0), got ";
  EXPECT_EQ(problem_of("mpl"), expected + "'mpl'; did you mean 'mlp'?");
  EXPECT_EQ(problem_of("lm_haed_of_mine"), expected + "'lm_haed_of_mine'");
  EXPECT_EQ(problem_of("blocks.0-1.mlp.pu"), expected + "'blocks.0-1.mlp.pu'; did you mean 'blocks.0-1.mlp.up'?");
  EXPECT_EQ(problem_of("layers.1.mlp"), expected + "'layers.1.mlp'; did you mean 'blocks.1.mlp'?");
  EXPECT_EQ(problem_of("layers.1"), expected + "'layers.1'; did you mean 'blocks.1'?");
  EXPECT_EQ(problem_of("mlp.up.weight").substr(0, expected.size()), expected);
  const std::string past = "expected layers below model.layers 2, counted from 0, got ";
  EXPECT_EQ(problem_of("blocks.2.mlp"), past + "'blocks.2.mlp'");
  EXPECT_EQ(problem_of("blocks.1-2"), past + "'blocks.1-2'");
  EXPECT_EQ(problem_of("blocks.1-0"), past + "'blocks.1-0'");
}

}  // namespace
}  // namespace strata::modules
