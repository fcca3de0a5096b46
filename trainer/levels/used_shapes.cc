// SPDX-License-Identifier: MIT
#include "trainer/levels/used_shapes.h"

#include <algorithm>
#include <string>
#include <variant>

#include "modules/config/block_config.h"
#include "modules/config/parameter_table.h"
#include "trainer/levels/graph_shapes.h"

namespace strata::trainer {
namespace {

using kernels::Activation;
using kernels::OpShape;

// The blocks of a model on `samples` samples of `positions` tokens each, and the norm behind the last of them.
void add_blocks(const modules::BlockConfig& block, int64_t samples, int64_t positions, ShapeCollector& shapes) {
  const int64_t rows = samples * positions, width = block.width, inner = block.feed_forward, layers = block.layers;
  const int64_t packed = (block.heads + 2 * block.key_value_heads) * block.head_width();
  const std::string norm = block.root_mean_square ? "rms_norm" : "layer_norm";
  // The first norm adds nothing; the others, and the one behind the layers, add the pending branch.
  shapes.in_layers({.op = norm, .rows = rows, .width = width, .bias = !block.root_mean_square}, 1);
  const OpShape adding{.op = "add_" + norm, .rows = rows, .width = width, .bias = !block.root_mean_square};
  shapes.in_layers(adding, 2 * layers - 1);
  shapes.outside(adding);
  const auto linear = [&](int64_t inputs, int64_t outputs, Activation activation = Activation::none) {
    shapes.in_layers({.op = "linear",
                      .rows = rows,
                      .width = inputs,
                      .outputs = outputs,
                      .activation = activation,
                      .bias = block.biases},
                     layers);
  };
  linear(width, packed);
  linear(width, width);
  OpShape attention{.op = "attention",
                    .rows = rows,
                    .width = block.head_width(),
                    .positions = positions,
                    .heads = block.heads,
                    .key_value_heads = block.key_value_heads,
                    .causal = block.causal};
  shapes.in_layers(attention, layers);
  if (block.rotary) {
    attention.op = "rotary";
    shapes.in_layers(attention, layers);
  }
  linear(width, block.gated ? 2 * inner : inner, block.activation);
  if (block.gated) shapes.in_layers({.op = "swiglu", .rows = rows, .width = inner}, layers);
  linear(inner, width);
  if (block.dropout > 0) {
    const OpShape dropout{.op = "dropout", .rows = rows, .width = width};
    shapes.in_layers(dropout, 2 * layers);
    shapes.outside(dropout);
  }
  // One number for each sample; the first of several layers leaves nothing out.
  if (block.stochastic_depth > 0) {
    shapes.in_layers({.op = "dropout", .rows = samples, .width = 1}, 2 * std::max<int64_t>(layers - 1, 1));
  }
}

void add_shapes(const modules::TransformerConfig& m, const ShapeSettings& settings, ShapeCollector& shapes) {
  const int64_t micro_batch = settings.micro_batch, rows = micro_batch * m.sequence;
  shapes.outside({.op = "embedding", .rows = rows, .width = m.width, .outputs = m.vocabulary});
  if (m.family == modules::Family::gpt2) {
    shapes.outside({.op = "embedding", .rows = m.sequence, .width = m.width, .outputs = m.sequence});
  }
  add_blocks(block_config(m), micro_batch, m.sequence, shapes);
  if (settings.head_and_loss_are_one) {
    shapes.outside({.op = "linear_cross_entropy", .rows = rows, .width = m.width, .outputs = m.vocabulary});
    return;
  }
  shapes.outside({.op = "linear", .rows = rows, .width = m.width, .outputs = m.vocabulary});
  shapes.outside({.op = "cross_entropy", .rows = rows, .width = m.vocabulary});
}

void add_shapes(const modules::VisionTransformerConfig& m, const ShapeSettings& settings, ShapeCollector& shapes) {
  const int64_t micro_batch = settings.micro_batch;
  shapes.outside({.op = "linear",
                  .rows = micro_batch * m.patches(),
                  .width = m.channels * m.patch * m.patch,
                  .outputs = m.width,
                  .bias = true});
  add_blocks(block_config(m), micro_batch, m.tokens(), shapes);
  shapes.outside({.op = "linear", .rows = micro_batch, .width = m.width, .outputs = m.classes, .bias = true});
  shapes.outside({.op = "cross_entropy", .rows = micro_batch, .width = m.classes});
}

}  // namespace

std::set<std::string> used_ops(const TrainerConfig& config) {
  std::set<std::string> ops;
  for (const UsedShape& used : used_shapes(config, /*graph=*/{})) ops.insert(used.shape.op);
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
      for (const char* op : {"adamw", "global_norm"}) shapes.outside({.op = op, .rows = 1, .width = shard});
    }
  };
  std::visit(add, config.model.type);
  return shapes.take();
}

std::string_view kernels_key(std::string_view op) {
  if (op == "add_layer_norm" || op == "layer_norm_gelu_tanh") return "layer_norm";
  if (op == "add_rms_norm") return "rms_norm";
  if (op == "add_dropout") return "dropout";
  if (op == "swiglu") return "activation";
  if (op == "neighbor_attention") return "neighbor_aggregate";
  return op;
}

}  // namespace strata::trainer
