// SPDX-License-Identifier: MIT
#include "trainer/used_shapes.h"

#include <algorithm>
#include <string>
#include <variant>

#include "modules/parameter_table.h"

namespace strata::trainer {
namespace {

using kernels::Activation;
using kernels::OpShape;

class UsedShapes {
 public:
  void in_layers(OpShape shape, int64_t uses) { of(std::move(shape)).in_layers += uses; }
  void outside(OpShape shape) { ++of(std::move(shape)).outside; }
  std::vector<UsedShape> take() { return std::move(all_); }

 private:
  UsedShape& of(OpShape shape) {
    const auto same =
        std::find_if(all_.begin(), all_.end(), [&](const UsedShape& used) { return used.shape == shape; });
    if (same != all_.end()) return *same;
    return all_.emplace_back(UsedShape{std::move(shape)});
  }
  std::vector<UsedShape> all_;
};

void add_model(const modules::TransformerConfig& m, int64_t micro_batch, UsedShapes& shapes) {
  const bool llama = m.family == modules::Family::llama;
  const int64_t rows = micro_batch * m.sequence, heads = m.heads, shared = m.key_value_head_count();
  const int64_t inner = m.feed_forward_width(), packed = (heads + 2 * shared) * m.head_width();
  const std::string norm = llama ? "rms_norm" : "layer_norm";
  shapes.outside({.op = "embedding", .rows = rows, .width = m.width, .outputs = m.vocabulary});
  if (!llama) shapes.outside({.op = "embedding", .rows = m.sequence, .width = m.width, .outputs = m.sequence});
  // The first norm adds nothing; the others, and the one behind the layers, add the pending branch.
  shapes.in_layers({.op = norm, .rows = rows, .width = m.width, .bias = !llama}, 1);
  const OpShape adding{.op = "add_" + norm, .rows = rows, .width = m.width, .bias = !llama};
  shapes.in_layers(adding, 2 * m.layers - 1);
  shapes.outside(adding);
  const auto linear = [&](int64_t width, int64_t outputs, Activation activation = Activation::none) {
    shapes.in_layers(
        {.op = "linear", .rows = rows, .width = width, .outputs = outputs, .activation = activation, .bias = !llama},
        m.layers);
  };
  linear(m.width, packed);
  linear(m.width, m.width);
  OpShape attention{.op = "attention",
                    .rows = rows,
                    .width = m.head_width(),
                    .positions = m.sequence,
                    .heads = heads,
                    .key_value_heads = shared};
  shapes.in_layers(attention, m.layers);
  if (llama) {
    attention.op = "rotary";
    shapes.in_layers(attention, m.layers);
    linear(m.width, 2 * inner);
    shapes.in_layers({.op = "swiglu", .rows = rows, .width = inner}, m.layers);
  } else {
    linear(m.width, inner, Activation::gelu_tanh);
  }
  linear(inner, m.width);
  if (m.dropout > 0) {
    const OpShape dropout{.op = "dropout", .rows = rows, .width = m.width};
    shapes.in_layers(dropout, 2 * m.layers);
    shapes.outside(dropout);
  }
  shapes.outside({.op = "linear", .rows = rows, .width = m.width, .outputs = m.vocabulary});
  shapes.outside({.op = "cross_entropy", .rows = rows, .width = m.vocabulary});
}

}  // namespace

std::vector<UsedShape> used_shapes(const TrainerConfig& config) {
  const auto& model = std::get<modules::TransformerConfig>(config.model.type);
  UsedShapes shapes;
  add_model(model, config.micro_batch, shapes);
  for (const modules::ParameterGroup& group : modules::parameter_table(model)) {
    const int64_t shard = std::max<int64_t>(group.elements() / config.run.ranks, 1);
    for (const char* op : {"adamw", "global_norm"}) shapes.outside({.op = op, .rows = 1, .width = shard});
  }
  return shapes.take();
}

}  // namespace strata::trainer
