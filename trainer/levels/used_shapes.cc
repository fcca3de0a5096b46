// SPDX-License-Identifier: MIT
#include "trainer/levels/used_shapes.h"

#include <algorithm>
#include <string>
#include <variant>

#include "kernels/adamw/adamw_shape.h"
#include "kernels/attention/attention_shape.h"
#include "kernels/cross_entropy/cross_entropy_shape.h"
#include "kernels/dropout/dropout_shape.h"
#include "kernels/embedding/embedding_shape.h"
#include "kernels/global_norm/global_norm_shape.h"
#include "kernels/layer_norm/layer_norm_shape.h"
#include "kernels/linear/linear_shape.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy_shape.h"
#include "kernels/rms_norm/rms_norm_shape.h"
#include "kernels/rotary/rotary_shape.h"
#include "kernels/swiglu/swiglu_shape.h"
#include "modules/config/block_config.h"
#include "modules/config/parameter_table.h"
#include "trainer/levels/graph_shapes.h"

namespace strata::trainer {
namespace {

using kernels::Activation;
using kernels::AdamwShape;
using kernels::AttentionShape;
using kernels::CrossEntropyShape;
using kernels::DropoutShape;
using kernels::EmbeddingShape;
using kernels::GlobalNormShape;
using kernels::LayerNormShape;
using kernels::LinearCrossEntropyShape;
using kernels::LinearShape;
using kernels::OpShape;
using kernels::RmsNormShape;
using kernels::RotaryShape;
using kernels::SwigluShape;

// The blocks of a model on `samples` samples of `positions` tokens each, and the norm behind the last of them.
void add_blocks(const modules::BlockConfig& block, int64_t samples, int64_t positions, ShapeCollector& shapes) {
  const int64_t rows = samples * positions, width = block.width, inner = block.feed_forward, layers = block.layers;
  const int64_t packed = (block.heads + 2 * block.key_value_heads) * block.head_width();
  const auto norm = [&](bool adds) -> OpShape {
    if (block.root_mean_square) return RmsNormShape{.rows = rows, .width = width, .adds = adds};
    return LayerNormShape{.rows = rows, .width = width, .bias = true, .adds = adds};
  };
  // The first norm adds nothing; the others, and the one behind the layers, add the pending branch.
  shapes.in_layers(norm(/*adds=*/false), 1);
  shapes.in_layers(norm(/*adds=*/true), 2 * layers - 1);
  shapes.outside(norm(/*adds=*/true));
  const auto linear = [&](int64_t inputs, int64_t outputs, Activation activation = Activation::none) {
    shapes.in_layers(
        LinearShape{.rows = rows, .inputs = inputs, .outputs = outputs, .activation = activation, .bias = block.biases},
        layers);
  };
  linear(width, packed);
  linear(width, width);
  shapes.in_layers(AttentionShape{.batch = samples,
                                  .positions = positions,
                                  .heads = block.heads,
                                  .key_value_heads = block.key_value_heads,
                                  .head_width = block.head_width(),
                                  .causal = block.causal},
                   layers);
  if (block.rotary) {
    shapes.in_layers(RotaryShape{.batch = samples,
                                 .positions = positions,
                                 .heads = block.heads,
                                 .key_value_heads = block.key_value_heads,
                                 .head_width = block.head_width()},
                     layers);
  }
  linear(width, block.gated ? 2 * inner : inner, block.activation);
  if (block.gated) shapes.in_layers(SwigluShape{.rows = rows, .width = inner}, layers);
  linear(inner, width);
  if (block.dropout > 0) {
    const DropoutShape dropout{.rows = rows, .width = width};
    shapes.in_layers(dropout, 2 * layers);
    shapes.outside(dropout);
  }
  // One number for each sample; the first of several layers leaves nothing out.
  if (block.stochastic_depth > 0) {
    shapes.in_layers(DropoutShape{.rows = samples, .width = 1}, 2 * std::max<int64_t>(layers - 1, 1));
  }
}

void add_shapes(const modules::TransformerConfig& m, const ShapeSettings& settings, ShapeCollector& shapes) {
  const int64_t micro_batch = settings.micro_batch, rows = micro_batch * m.sequence;
  shapes.outside(EmbeddingShape{.rows = rows, .width = m.width, .vocabulary = m.vocabulary});
  if (m.family == modules::Family::gpt2) {
    shapes.outside(EmbeddingShape{.rows = m.sequence, .width = m.width, .vocabulary = m.sequence});
  }
  add_blocks(block_config(m), micro_batch, m.sequence, shapes);
  if (settings.head_and_loss_are_one) {
    shapes.outside(LinearCrossEntropyShape{.rows = rows, .inputs = m.width, .classes = m.vocabulary});
    return;
  }
  shapes.outside(LinearShape{.rows = rows, .inputs = m.width, .outputs = m.vocabulary});
  shapes.outside(CrossEntropyShape{.rows = rows, .classes = m.vocabulary});
}

void add_shapes(const modules::VisionTransformerConfig& m, const ShapeSettings& settings, ShapeCollector& shapes) {
  const int64_t micro_batch = settings.micro_batch;
  shapes.outside(LinearShape{
      .rows = micro_batch * m.patches(), .inputs = m.channels * m.patch * m.patch, .outputs = m.width, .bias = true});
  add_blocks(block_config(m), micro_batch, m.tokens(), shapes);
  shapes.outside(LinearShape{.rows = micro_batch, .inputs = m.width, .outputs = m.classes, .bias = true});
  shapes.outside(CrossEntropyShape{.rows = micro_batch, .classes = m.classes});
}

}  // namespace

std::map<std::string, std::string> used_ops(const TrainerConfig& config) {
  std::map<std::string, std::string> ops;
  for (const UsedShape& used : used_shapes(config, /*graph=*/{})) ops.emplace(used.shape.op(), used.shape.key());
  return ops;
}

std::vector<UsedShape> used_shapes(const TrainerConfig& config, const GraphSizes& graph) {
  return used_shapes(config, graph, config.kernels.levels.linear_cross_entropy.has_value());
}

std::vector<UsedShape> used_shapes(const TrainerConfig& config, const GraphSizes& graph, bool head_and_loss_are_one) {
  const ShapeSettings settings = {config.micro_batch, config.run.ranks, head_and_loss_are_one,
                                  config.data,        config.precision, graph};
  ShapeCollector shapes;
  const int64_t shards = config.sharding.ranks_per_copy(config.run.ranks);
  const auto add = [&](const auto& model) {
    add_shapes(model, settings, shapes);
    for (const modules::ParameterGroup& group : modules::parameter_table(model)) {
      const int64_t shard = std::max<int64_t>(group.elements() / shards, 1);
      shapes.outside(AdamwShape{.elements = shard});
      shapes.outside(GlobalNormShape{.elements = shard});
    }
  };
  std::visit(add, config.model.type);
  return shapes.take();
}

}  // namespace strata::trainer
