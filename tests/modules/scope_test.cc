// SPDX-License-Identifier: MIT
// Checks that models declare what the tables without LibTorch contain: every parameter in order, with its
// initialization and its group, and every op of every module.
#include "modules/scope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "base/errors.h"
#include "modules/model_sources.h"
#include "tests/modules/kernels_lines.h"
#include "trainer/config/graph_data.h"
#include "trainer/config/load_config.h"
#include "trainer/config/used_modules.h"
#include "trainer/tasks/declared_model.h"

namespace strata::modules {
namespace {

using kernels::Level;
using trainer::TrainerConfig;

std::string text_of(const Parameter& parameter) {
  std::string text = parameter.name + " [";
  for (const int64_t size : parameter.shape) text += std::to_string(size) + " ";
  char constant[32];
  std::snprintf(constant, sizeof(constant), "%a", parameter.constant);  // exact, with every bit
  return text + "] " + std::to_string(static_cast<int>(parameter.initialization)) + " " + constant +
         (parameter.never_decayed ? " never decayed" : "");
}

std::vector<std::string> lines_of(const std::vector<ParameterGroup>& groups) {
  std::vector<std::string> lines;
  for (const ParameterGroup& group : groups) {
    lines.push_back(group.name + ", role " + std::to_string(static_cast<int>(group.role)));
    for (const Parameter& parameter : group.parameters) lines.push_back("  " + text_of(parameter));
  }
  return lines;
}

std::vector<std::string> lines_of(const std::vector<Module>& modules) {
  std::vector<std::string> lines;
  for (const Module& module : modules) {
    std::vector<std::string_view> ops = module.ops;
    std::sort(ops.begin(), ops.end());
    EXPECT_EQ(std::adjacent_find(ops.begin(), ops.end()), ops.end()) << module.name << " has an op twice";
    std::string line = module.name + " in " + module.group + ":";
    for (const std::string_view op : ops) line += " " + std::string(op);
    lines.push_back(line);
  }
  return lines;
}

// A tied head has no parameter, and no op if head and loss are one op. No constructor declares it then, but
// configurations may name it.
std::vector<Module> without_silent_head(std::vector<Module> modules) {
  std::erase_if(modules, [](const Module& module) {
    return module.name == "head" && module.group == "root" && module.ops.empty();
  });
  return modules;
}

void compare(const TrainerConfig& config) {
  const trainer::DeclaredModel declared = trainer::declared_model(config);
  const auto table = std::visit([](const auto& model) { return parameter_table(model); }, config.model.type);
  EXPECT_EQ(lines_of(declared.groups), lines_of(table));
  EXPECT_EQ(lines_of(declared.modules), lines_of(without_silent_head(trainer::used_modules(config))));
}

template <class Model>
void compare(const Model& model) {
  TrainerConfig config;
  config.model.type = model;
  compare(config);
}

TEST(DeclaredModel, IsTheTablesOfShippedConfigurations) {
  int64_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator("configs")) {
    if (file.path().extension() != ".yaml") continue;
    SCOPED_TRACE(file.path());
    compare(trainer::load_trainer_config(file.path(), {}).config);
    ++count;
  }
  EXPECT_GE(count, 8);
}

TEST(DeclaredModel, IsTheTablesOfLanguageModels) {
  for (const Family family : {Family::gpt2, Family::llama}) {
    for (const bool tied : {true, false}) {
      for (const double dropout : {0.0, 0.1}) {
        for (const int64_t key_value_heads : {0, 2}) {
          for (const bool fused : {true, false}) {
            SCOPED_TRACE(testing::Message()
                         << names(family)[static_cast<size_t>(family)] << ", tied " << tied << ", dropout " << dropout
                         << ", heads of keys " << key_value_heads << ", head and loss are one " << fused);
            TrainerConfig config;
            config.model.type = TransformerConfig{.family = family,
                                                  .layers = 3,
                                                  .width = 8,
                                                  .heads = 4,
                                                  .key_value_heads = key_value_heads,
                                                  .feed_forward = 12,
                                                  .sequence = 6,
                                                  .vocabulary = 5,
                                                  .tied = tied,
                                                  .dropout = dropout};
            if (fused) config.kernels.levels.linear_cross_entropy = Level::aten;
            compare(config);
          }
        }
      }
    }
  }
}

TEST(DeclaredModel, IsTheTablesOfVisionTransformers) {
  for (const Pooling pooling : {Pooling::class_token, Pooling::mean}) {
    for (const double dropout : {0.0, 0.1}) {
      for (const double stochastic_depth : {0.0, 0.5}) {
        for (const double layer_scale : {0.0, 1e-5}) {
          for (const int64_t layers : {1, 3}) {
            SCOPED_TRACE(testing::Message()
                         << "pooling " << static_cast<int>(pooling) << ", dropout " << dropout << ", stochastic depth "
                         << stochastic_depth << ", layer scale " << layer_scale << ", layers " << layers);
            VisionTransformerConfig model;
            model.layers = layers, model.width = 8, model.heads = 2, model.classes = 3;
            model.image_size = 6, model.patch = 2, model.channels = 1;
            model.pooling = pooling, model.dropout = dropout;
            model.stochastic_depth = stochastic_depth, model.layer_scale = layer_scale;
            compare(model);
          }
        }
      }
    }
  }
}

// The widths are smaller and larger than features and classes. If outputs are narrower, products come before sums.
void compare_graph_networks(GraphNetworkConfig model) {
  for (const InputProjection projection : {InputProjection::none, InputProjection::dense, InputProjection::sparse}) {
    for (const NodePooling pooling : {NodePooling::none, NodePooling::mean, NodePooling::sum, NodePooling::attention}) {
      for (const int options : {0, 1, 2, 3, 4, 5, 6, 7}) {
        for (const int64_t width : {4, 16}) {
          for (const bool sampled : {false, true}) {
            SCOPED_TRACE(testing::Message()
                         << "convolution " << static_cast<int>(model.convolution) << ", projection "
                         << static_cast<int>(projection) << ", pooling " << static_cast<int>(pooling) << ", options "
                         << options << ", width " << width << ", sampled " << sampled);
            model.projection = projection, model.pooling = pooling, model.width = width;
            model.norm = options % 2 == 1, model.residual = options / 2 % 2 == 1;
            model.dropout = options / 4 == 1 ? 0.5 : 0;
            TrainerConfig config;
            config.model.type = model;
            trainer::SyntheticGraphDataConfig data;
            if (sampled) data.neighbors = std::vector<int64_t>{3, 3, 3};
            config.data.type = data;
            ASSERT_EQ(shares_samples(config.model, config.data), !sampled);
            compare(config);
          }
        }
      }
    }
  }
}

TEST(DeclaredModel, IsTheTablesOfGraphNetworks) {
  using Kind = GraphConvolutionKind;
  for (const Kind kind : {Kind::sage, Kind::gcn, Kind::gin, Kind::gat}) {
    GraphNetworkConfig model{.convolution = kind, .features = 8, .layers = 3, .classes = 6};
    if (kind == Kind::gat) model.heads = 2;
    compare_graph_networks(model);
    if (kind != Kind::sage) continue;
    model.reduction = SageReduction::max;
    compare_graph_networks(model);
  }
}

// Records the calls of a scope to its source.
class Listener : public ModelSource {
 public:
  Tensor parameter(const Group& group, const Parameter& parameter) override {
    lines.push_back(group.name + " " + std::to_string(static_cast<int>(group.role)) + " " + parameter.name);
    return {};
  }
  void op(const Group& group, const std::string& module, std::string_view op, Level level) override {
    lines.push_back(group.name + " " + module + " " + std::string(op) + " " + std::string(kernels::name(level)));
  }
  std::vector<std::string> lines;
};

TEST(Scope, HasANameAndAGroup) {
  Listener listener;
  KernelsConfig kernels = mixed();
  add_line(kernels, "head", &OpLevels::linear, Level::torchscript);
  const Scope model(listener, kernels);
  model.parameter({"alone", {1}});
  (model / "norm").parameter({"weight", {1}});
  (model.layer("blocks.2") / "" / "mlp" / "up").parameter({"weight", {1}});
  model.head("pooling").parameter({"weight", {1}});
  EXPECT_EQ((model.layer("blocks.2") / "norm1").level("rms_norm"), Level::cuda);
  EXPECT_EQ(model.head("head").level("linear"), Level::torchscript);
  EXPECT_EQ(model.level("attention"), Level::torchscript);
  EXPECT_EQ(listener.lines,
            (std::vector<std::string>{"root 0 alone", "root 0 norm.weight", "blocks.2 1 blocks.2.mlp.up.weight",
                                      "head 2 pooling.weight", "blocks.2 blocks.2.norm1 rms_norm cuda",
                                      "head head linear torchscript", "root  attention torchscript"}));
  EXPECT_THROW(model.level("swiglu"), Error) << "that is no key of `kernels:`";
}

TEST(BindingSource, RefusesAnotherShape) {
  BindingSource source([](const std::string&) { return Tensor(); });
  const KernelsConfig kernels;
  EXPECT_ANY_THROW(Scope(source, kernels).parameter({"weight", {3}}));
}

}  // namespace
}  // namespace strata::modules
