// SPDX-License-Identifier: MIT
// The parameters that models declare: published counts, names, shapes and first values; and the FLOPs that follow.
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "modules/config/model_config.h"
#include "trainer/tasks/declared_model.h"

namespace strata::modules {
namespace {

template <class Model>
std::vector<ParameterGroup> groups_of(const Model& model) {
  return trainer::declared_groups({.type = model});
}

template <class Model>
double flops_of(const Model& model) {
  return flops_per_item({.type = model}, groups_of(model));
}

TransformerConfig gpt2_124m() {
  return {.family = Family::gpt2, .layers = 12, .width = 768, .heads = 12, .sequence = 1024, .vocabulary = 50257};
}

TransformerConfig llama_3_2_1b() {
  return {.layers = 16,
          .width = 2048,
          .heads = 32,
          .key_value_heads = 8,
          .feed_forward = 8192,
          .sequence = 4096,
          .vocabulary = 128256};
}

TransformerConfig llama_3_8b() {
  return {.layers = 32,
          .width = 4096,
          .heads = 32,
          .key_value_heads = 8,
          .feed_forward = 14336,
          .sequence = 8192,
          .vocabulary = 128256,
          .tied = false};
}

TransformerConfig qwen3_600m() {
  return {.layers = 28,
          .width = 1024,
          .heads = 16,
          .key_value_heads = 8,
          .head_width = 128,
          .query_key_norm = QueryKeyNorm::head,
          .feed_forward = 3072,
          .sequence = 4096,
          .vocabulary = 151936};
}

TransformerConfig gemma_3_1b() {
  return {.layers = 26,
          .width = 1152,
          .heads = 4,
          .key_value_heads = 1,
          .head_width = 256,
          .query_key_norm = QueryKeyNorm::head,
          .feed_forward = 6912,
          .sequence = 4096,
          .vocabulary = 262144,
          .norm_placement = NormPlacement::both};
}

// OLMo 2 1B
TransformerConfig olmo_2_1b() {
  return {.layers = 16,
          .width = 2048,
          .heads = 16,
          .query_key_norm = QueryKeyNorm::whole,
          .feed_forward = 8192,
          .sequence = 4096,
          .vocabulary = 100352,
          .tied = false,
          .norm_placement = NormPlacement::after};
}

// Qwen 2.5 0.5B
TransformerConfig qwen2_500m() {
  return {.layers = 24,
          .width = 896,
          .heads = 14,
          .key_value_heads = 2,
          .qkv_biases = true,
          .feed_forward = 4864,
          .sequence = 4096,
          .vocabulary = 151936};
}

TransformerConfig quickstart() {
  return {.layers = 4, .width = 128, .heads = 4, .feed_forward = 344, .sequence = 128, .vocabulary = 256};
}

VisionTransformerConfig vision(int64_t layers, int64_t width, int64_t heads) {
  return {.layers = layers, .width = width, .heads = heads, .image_size = 224, .patch = 16, .classes = 1000};
}

MixerConfig mixer(int64_t layers, int64_t width) {
  return {.layers = layers, .width = width, .image_size = 224, .patch = 16, .classes = 1000};
}

TEST(DeclaredParameters, CountsOfMixersAreThoseOfTimm) {
  EXPECT_EQ(parameter_count(groups_of(mixer(8, 512))), 18'528'264);   // mixer_s16_224
  EXPECT_EQ(parameter_count(groups_of(mixer(12, 768))), 59'880'472);  // mixer_b16_224
}

// The paper has no FLOPs. By hand: 4 patches of 2 x 2 pixels, width 8, MLPs over 4 -> 3 -> 4 patches and 8 -> 16 -> 8
// channels in one block.
TEST(DeclaredParameters, FlopsOfAMixer) {
  const MixerConfig small = {.layers = 1,
                             .width = 8,
                             .token_width = 3,
                             .feed_forward = 16,
                             .image_size = 4,
                             .patch = 2,
                             .channels = 1,
                             .classes = 5};
  EXPECT_EQ(flops_of(small), 6.0 * (4 * 4 * 8 + 8 * 2 * 4 * 3 + 4 * 2 * 8 * 16 + 8 * 5));
}

TEST(DeclaredParameters, CountsAreThoseOfTimm) {
  EXPECT_EQ(parameter_count(groups_of(vision(12, 192, 3))), 5'717'416);
  EXPECT_EQ(parameter_count(groups_of(vision(12, 384, 6))), 22'050'664);
  EXPECT_EQ(parameter_count(groups_of(vision(12, 768, 12))), 86'567'656);
  EXPECT_EQ(parameter_count(groups_of(vision(24, 1024, 16))), 304'326'632);
}

TEST(DeclaredParameters, OfAVisionTransformer) {
  VisionTransformerConfig config = {.layers = 4,
                                    .width = 64,
                                    .heads = 4,
                                    .image_size = 28,
                                    .patch = 7,
                                    .channels = 1,
                                    .classes = 10,
                                    .pooling = Pooling::mean};
  EXPECT_EQ(parameter_count(groups_of(config)), 204'938);
  config.layer_scale = 1e-5;
  EXPECT_EQ(parameter_count(groups_of(config)), 204'938 + 4 * 2 * 64);
  const auto table = groups_of(config);
  ASSERT_EQ(table.size(), 6u);
  EXPECT_EQ(table.back().name, "head");
  for (const auto& group : table) {
    for (const auto& parameter : group.parameters) {
      const bool matrix = parameter.shape.size() == 2;
      EXPECT_EQ(parameter.decayed(), matrix && parameter.name != "position.weight") << parameter.name;
      EXPECT_EQ(parameter.constant, parameter.name.find("_scale.") == std::string::npos ? 0 : 1e-5) << parameter.name;
    }
  }
}

TEST(DeclaredParameters, CountsAreThePublishedOnes) {
  EXPECT_EQ(parameter_count(groups_of(gpt2_124m())), 124'439'808);
  EXPECT_EQ(parameter_count(groups_of(llama_3_2_1b())), 1'235'814'400);
  EXPECT_EQ(parameter_count(groups_of(llama_3_8b())), 8'030'261'248);
  EXPECT_EQ(parameter_count(groups_of(qwen3_600m())), 596'049'920);
  EXPECT_EQ(parameter_count(groups_of(gemma_3_1b())), 999'885'952);
  EXPECT_EQ(parameter_count(groups_of(olmo_2_1b())), 1'484'916'736);
  EXPECT_EQ(parameter_count(groups_of(qwen2_500m())), 494'032'768);
  EXPECT_EQ(parameter_count(groups_of(quickstart())), 824'448);
}

TEST(DeclaredParameters, OfTermsOfAttention) {
  TransformerConfig model = quickstart();
  model.softcap = 50;
  EXPECT_EQ(parameter_count(groups_of(model)), 824'448);
  model.sinks = true;
  const auto groups = groups_of(model);
  EXPECT_EQ(parameter_count(groups), 824'448 + 4 * 4);
  std::vector<int64_t> shape;
  for (const Parameter& parameter : groups.back().parameters) {
    if (parameter.name != "blocks.3.attention.sinks") continue;
    shape = parameter.shape;
    EXPECT_EQ(parameter.initialization, Initialization::zeros);
    EXPECT_FALSE(parameter.decayed());
  }
  EXPECT_EQ(shape, std::vector<int64_t>{4});
  // ALiBi takes the place of learned positions.
  TransformerConfig gpt2 = gpt2_124m();
  gpt2.alibi = true;
  EXPECT_EQ(parameter_count(groups_of(gpt2)), 124'439'808 - 1024 * 768);
  EXPECT_EQ(flops_of(model), flops_of(quickstart()));
}

TEST(DeclaredParameters, GroupsAreRootBlocksAndUntiedHead) {
  const auto tied = groups_of(quickstart());
  ASSERT_EQ(tied.size(), 5u);
  EXPECT_EQ(tied.front().name, "root");
  EXPECT_EQ(tied.back().name, "blocks.3");
  const auto untied = groups_of(llama_3_8b());
  ASSERT_EQ(untied.size(), 34u);
  EXPECT_EQ(untied.back().name, "head");
  EXPECT_EQ(untied.back().parameters.at(0).name, "head.weight");
}

TEST(DeclaredParameters, NamesAndShapesOfBothFamilies) {
  const auto shape_of = [](const std::vector<ParameterGroup>& table, const std::string& name) {
    for (const auto& group : table) {
      for (const auto& parameter : group.parameters) {
        if (parameter.name == name) return parameter.shape;
      }
    }
    ADD_FAILURE() << "no parameter " << name;
    return std::vector<int64_t>{};
  };
  using Shape = std::vector<int64_t>;
  const auto llama = groups_of(llama_3_2_1b());
  EXPECT_EQ(shape_of(llama, "blocks.15.attention.qkv.weight"), (Shape{3072, 2048}));
  EXPECT_EQ(shape_of(llama, "blocks.0.mlp.gate_up.weight"), (Shape{16384, 2048}));
  EXPECT_EQ(shape_of(llama, "blocks.0.mlp.down.weight"), (Shape{2048, 8192}));
  const auto gpt2 = groups_of(gpt2_124m());
  EXPECT_EQ(shape_of(gpt2, "position.weight"), (Shape{1024, 768}));
  EXPECT_EQ(shape_of(gpt2, "blocks.11.attention.qkv.bias"), (Shape{2304}));
  EXPECT_EQ(shape_of(gpt2, "blocks.0.mlp.up.weight"), (Shape{3072, 768}));
  EXPECT_EQ(shape_of(gpt2, "norm.bias"), (Shape{768}));
}

TEST(DeclaredParameters, EndsOfResidualBranchesAndNormsStartApart) {
  std::set<std::string> residual, ones;
  for (const auto& group : groups_of(quickstart())) {
    for (const auto& parameter : group.parameters) {
      if (parameter.initialization == Initialization::residual) residual.insert(parameter.name);
      if (parameter.initialization == Initialization::ones) ones.insert(parameter.name);
    }
  }
  EXPECT_EQ(residual.size(), 8u);
  EXPECT_TRUE(residual.contains("blocks.2.attention.output.weight"));
  EXPECT_TRUE(residual.contains("blocks.2.mlp.down.weight"));
  EXPECT_EQ(ones.size(), 9u);
}

TEST(DeclaredParameters, OfGraphNetworks) {
  GraphNetworkConfig config{.convolution = GraphConvolutionKind::sage,
                            .projection = InputProjection::sparse,
                            .features = 2000,
                            .layers = 2,
                            .width = 128,
                            .classes = 26,
                            .norm = true};
  const auto quickstart = groups_of(config);
  EXPECT_EQ(parameter_count(quickstart), 296218);
  ASSERT_EQ(quickstart.size(), 3u);
  EXPECT_EQ(quickstart[0].role, Role::root);
  EXPECT_EQ(quickstart[2].role, Role::layer);
  std::vector<std::string> names;
  for (const Parameter& parameter : quickstart[1].parameters) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"layers.0.norm.weight", "layers.0.norm.bias", "layers.0.neighbor.weight",
                                             "layers.0.neighbor.bias", "layers.0.self.weight"}));
  // PyG's models with these sizes, without a projection, have as many parameters.
  config = {.features = 128, .layers = 3, .width = 256, .classes = 40};
  EXPECT_EQ(parameter_count(groups_of(config)), 2 * (128 * 256 + 256 * 256 + 256 * 40) + 2 * 256 + 40);
  config.convolution = GraphConvolutionKind::gcn;
  EXPECT_EQ(parameter_count(groups_of(config)), 128 * 256 + 256 * 256 + 256 * 40 + 2 * 256 + 40);
  config.convolution = GraphConvolutionKind::gat;
  config.heads = 4;
  EXPECT_EQ(parameter_count(groups_of(config)),
            (128 * 256 + 3 * 256) + (256 * 256 + 3 * 256) + (256 * 4 * 40 + 2 * 4 * 40 + 40));
  // With a pooling, the heads of the last layer are concatenated too, and a linear layer gives the classes.
  config.pooling = NodePooling::attention;
  const auto pooled = groups_of(config);
  EXPECT_EQ(parameter_count(pooled), (128 * 256 + 3 * 256) + 2 * (256 * 256 + 3 * 256) + (256 + 1) + (256 * 40 + 40));
  EXPECT_EQ(pooled.front().role, Role::layer);
  EXPECT_EQ(pooled.back().role, Role::head);
  EXPECT_EQ(pooled.back().name, "head");
  EXPECT_EQ(pooled.back().parameters[0].name, "pooling.gate.weight");
}

TEST(FlopsPerToken, FollowTheConvention) {
  // Llama-3-8B at 8192: 51.47 GFLOP per token.
  EXPECT_NEAR(flops_of(llama_3_8b()) / 1e9, 51.47, 0.01);
  // Quick start: blocks hold 4 x (3 x 128 x 128 + 128 x 128 + 3 x 344 x 128) in matrices, the tied head 256 x 128.
  EXPECT_EQ(flops_of(quickstart()), 6.0 * (4 * (4 * 128 * 128 + 3 * 344 * 128) + 256 * 128) + 6 * 128 * 128 * 4);
}

TEST(FlopsPerToken, CountTheWidthOfAllHeads) {
  TransformerConfig model = quickstart();
  model.head_width = 48;
  // Four heads of 48 in place of 32: 64 more columns of queries, keys, values and of the output.
  EXPECT_EQ(flops_of(model) - flops_of(quickstart()), 6.0 * 4 * (4 * 64 * 128) + 6 * 64 * 128 * 4);
}

TEST(FlopsPerToken, CountVisiblePairs) {
  TransformerConfig model = quickstart();
  model.attention = "full";
  EXPECT_EQ(flops_of(model) - flops_of(quickstart()), 6.0 * 128 * 128 * 4);
  model.attention = "causal & window(16)";
  const double keys = (16 * 17 / 2 + 112 * 16) / 128.0;
  EXPECT_EQ(flops_of(model) - flops_of(quickstart()), (12 * keys - 6 * 128) * 128 * 4);
  model.layer_overrides = {{.only = {1, 3, 2}, .attention = "full"}, {.only = {3, 3}, .attention = "causal"}};
  EXPECT_EQ(flops_of(model) - flops_of(quickstart()), (12 * keys - 6 * 128) * 128 * 2 + 6.0 * 128 * 128);
}

// The pairs of the third pattern are counted one by one. Its prefix ends within the second document of the first
// sample.
TEST(FlopsPerToken, CountPairsWithinDocuments) {
  const DocumentLengths documents = {{28, 100}, {128}, {8, 1, 119}};
  const auto change = [&](const std::string& pattern) {
    TransformerConfig model = quickstart();
    model.attention = pattern;
    return flops_per_item({.type = model}, groups_of(model), documents) - flops_of(model);
  };
  const auto keys_of = [&](const auto& pairs_of) {
    double pairs = 0;
    for (const std::vector<int64_t>& sample_lengths : documents) {
      for (int64_t i = 0, begin = 0; i < std::ssize(sample_lengths); begin += sample_lengths[i++]) {
        pairs += pairs_of(begin, begin + sample_lengths[i]);
      }
    }
    return pairs / (3 * 128);
  };
  const double per_key = 12.0 * 128 * 4;
  const double causal = keys_of([](int64_t begin, int64_t end) { return (end - begin) * (end - begin) / 2.0; });
  EXPECT_NEAR(change("causal"), per_key * (causal - 64), 1e-3);
  const double window = keys_of([](int64_t begin, int64_t end) {
    const int64_t length = end - begin;
    return length < 16 ? length * (length + 1) / 2.0 : 16 * 17 / 2.0 + 16.0 * static_cast<double>(length - 16);
  });
  EXPECT_NEAR(change("causal & window(16)"), per_key * (window - (16 * 17 / 2 + 112 * 16) / 128.0), 1e-3);
  const auto count = [](int64_t begin, int64_t end) {
    int64_t seen = 0;
    for (int64_t query = begin; query < end; ++query) {
      for (int64_t key = begin; key < end; ++key) seen += key <= query || key < 40;
    }
    return static_cast<double>(seen);
  };
  EXPECT_NEAR(change("causal | prefix(40)"), per_key * (keys_of(count) - count(0, 128) / 128), 1e-3);
}

TEST(FlopsPerImage, FollowTheConvention) {
  // ViT-B/16 at 224: 17.58 G multiply-adds forward (timm's table), and 2 x 3 FLOPs for each in a step.
  EXPECT_NEAR(flops_of(vision(12, 768, 12)) / 6e9, 17.58, 0.02);
}

}  // namespace
}  // namespace strata::modules
