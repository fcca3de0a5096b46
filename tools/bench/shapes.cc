// SPDX-License-Identifier: MIT
#include "tools/bench/shapes.h"

#include <algorithm>
#include <variant>

#include "modules/block_config.h"
#include "modules/parameter_table.h"

namespace strata::tools {
namespace {

using kernels::Activation;
using kernels::OpShape;

class UsedShapes {
 public:
  void add(OpShape shape, int64_t uses = 1) {
    const auto same =
        std::find_if(all_.begin(), all_.end(), [&](const UsedShape& used) { return used.shape == shape; });
    if (same != all_.end()) {
      same->uses += uses;
    } else {
      all_.push_back({std::move(shape), uses});
    }
  }
  std::vector<UsedShape> take() { return std::move(all_); }

 private:
  std::vector<UsedShape> all_;
};

// The blocks of a model on `samples` samples of `positions` tokens each, and the norm after the last of them.
void add_blocks(const modules::BlockConfig& block, int64_t samples, int64_t positions, UsedShapes& shapes) {
  const int64_t rows = samples * positions, width = block.width, inner = block.feed_forward, layers = block.layers;
  const int64_t packed = (block.heads + 2 * block.key_value_heads) * block.head_width();
  const auto linear = [&](int64_t inputs, int64_t outputs, Activation activation = Activation::none) {
    shapes.add({.op = "linear",
                .rows = rows,
                .width = inputs,
                .outputs = outputs,
                .activation = activation,
                .bias = block.biases},
               layers);
  };
  const std::string norm = block.root_mean_square ? "rms_norm" : "layer_norm";
  // The first norm adds nothing; the others, and the last, add the pending branch.
  shapes.add({.op = norm, .rows = rows, .width = width, .bias = !block.root_mean_square});
  shapes.add({.op = "add_" + norm, .rows = rows, .width = width, .bias = !block.root_mean_square}, 2 * layers);
  linear(width, packed);
  linear(width, width);
  OpShape attention{.op = "attention",
                    .rows = rows,
                    .width = block.head_width(),
                    .positions = positions,
                    .heads = block.heads,
                    .key_value_heads = block.key_value_heads,
                    .causal = block.causal};
  shapes.add(attention, layers);
  if (block.rotary) {
    attention.op = "rotary";
    shapes.add(attention, layers);
  }
  linear(width, block.gated ? 2 * inner : inner, block.activation);
  if (block.gated) shapes.add({.op = "swiglu", .rows = rows, .width = inner}, layers);
  linear(inner, width);
  if (block.dropout > 0) shapes.add({.op = "dropout", .rows = rows, .width = width}, 2 * layers + 1);
  if (block.stochastic_depth > 0) shapes.add({.op = "dropout", .rows = samples, .width = 1}, 2 * layers);
}

void add_model(const modules::TransformerConfig& m, int64_t micro_batch, UsedShapes& shapes) {
  const int64_t rows = micro_batch * m.sequence;
  shapes.add({.op = "embedding", .rows = rows, .width = m.width, .outputs = m.vocabulary});
  if (m.family == modules::Family::gpt2) {
    shapes.add({.op = "embedding", .rows = m.sequence, .width = m.width, .outputs = m.sequence});
  }
  add_blocks(block_config(m), micro_batch, m.sequence, shapes);
  shapes.add({.op = "linear", .rows = rows, .width = m.width, .outputs = m.vocabulary});
  shapes.add({.op = "cross_entropy", .rows = rows, .width = m.vocabulary});
}

void add_model(const modules::VisionTransformerConfig& m, int64_t micro_batch, UsedShapes& shapes) {
  shapes.add({.op = "linear",
              .rows = micro_batch * m.patches(),
              .width = m.channels * m.patch * m.patch,
              .outputs = m.width,
              .bias = true});
  add_blocks(block_config(m), micro_batch, m.tokens(), shapes);
  shapes.add({.op = "linear", .rows = micro_batch, .width = m.width, .outputs = m.classes, .bias = true});
  shapes.add({.op = "cross_entropy", .rows = micro_batch, .width = m.classes});
}

}  // namespace

std::vector<OpShape> common_shapes() {
  std::vector<OpShape> shapes;
  for (const auto& [rows, width] : {std::pair{16384, 4096}, std::pair{8192, 8192}}) {
    shapes.push_back({.op = "rms_norm", .rows = rows, .width = width});
  }
  for (const auto& [rows, width] : {std::pair{16384, 4096}, std::pair{8192, 8192}, std::pair{32768, 4096}}) {
    shapes.push_back({.op = "add_rms_norm", .rows = rows, .width = width});
  }
  for (const char* op : {"layer_norm", "add_layer_norm"}) {
    for (const auto& [rows, width] : {std::pair{65536, 768}, std::pair{32768, 1600}}) {
      shapes.push_back({.op = op, .rows = rows, .width = width, .bias = true});
    }
  }
  shapes.push_back({.op = "swiglu", .rows = 16384, .width = 14336});
  shapes.push_back({.op = "activation", .rows = 65536, .width = 3072, .activation = Activation::gelu_tanh});
  shapes.push_back({.op = "dropout", .rows = 65536, .width = 768});
  shapes.push_back({.op = "rotary", .rows = 16384, .width = 128, .positions = 8192, .heads = 32, .key_value_heads = 8});
  shapes.push_back({.op = "embedding", .rows = 65536, .width = 768, .outputs = 50304});
  shapes.push_back({.op = "cross_entropy", .rows = 65536, .width = 50304});
  shapes.push_back({.op = "cross_entropy", .rows = 16384, .width = 128256});
  shapes.push_back({.op = "adamw", .rows = 1, .width = 1'200'000'000});
  shapes.push_back({.op = "global_norm", .rows = 1, .width = 1'200'000'000});
  shapes.push_back({.op = "linear",
                    .rows = 65536,
                    .width = 768,
                    .outputs = 3072,
                    .activation = Activation::gelu_tanh,
                    .bias = true});
  shapes.push_back({.op = "linear", .rows = 8192, .width = 4096, .outputs = 28672});
  struct Heads {
    int64_t batch, positions, heads, key_value_heads, width;
  };
  for (const Heads& h : {Heads{64, 1024, 12, 12, 64}, Heads{8, 4096, 32, 8, 64}, Heads{2, 8192, 32, 8, 128}}) {
    shapes.push_back({.op = "attention",
                      .rows = h.batch * h.positions,
                      .width = h.width,
                      .positions = h.positions,
                      .heads = h.heads,
                      .key_value_heads = h.key_value_heads});
  }
  return shapes;
}

std::vector<OpShape> small_shapes() {
  std::vector<OpShape> shapes;
  for (const char* op : {"rms_norm", "add_rms_norm"}) shapes.push_back({.op = op, .rows = 2048, .width = 1024});
  for (const char* op : {"layer_norm", "add_layer_norm"}) {
    shapes.push_back({.op = op, .rows = 2048, .width = 1024, .bias = true});
  }
  shapes.push_back({.op = "swiglu", .rows = 2048, .width = 1024});
  shapes.push_back({.op = "activation", .rows = 2048, .width = 1024, .activation = Activation::gelu_tanh});
  shapes.push_back({.op = "dropout", .rows = 2048, .width = 1024});
  shapes.push_back({.op = "rotary", .rows = 1024, .width = 64, .positions = 256, .heads = 8, .key_value_heads = 2});
  shapes.push_back({.op = "embedding", .rows = 2048, .width = 512, .outputs = 4096});
  shapes.push_back({.op = "cross_entropy", .rows = 512, .width = 4096});
  shapes.push_back({.op = "adamw", .rows = 1, .width = 4'000'000});
  shapes.push_back({.op = "global_norm", .rows = 1, .width = 16'000'000});
  shapes.push_back(
      {.op = "linear", .rows = 512, .width = 512, .outputs = 1024, .activation = Activation::gelu_tanh, .bias = true});
  shapes.push_back({.op = "attention", .rows = 512, .width = 64, .positions = 256, .heads = 8, .key_value_heads = 8});
  return shapes;
}

std::vector<UsedShape> shapes_of(const trainer::TrainerConfig& config) {
  UsedShapes shapes;
  const auto add = [&](const auto& model) {
    add_model(model, config.micro_batch, shapes);
    for (const modules::ParameterGroup& group : modules::parameter_table(model)) {
      const int64_t shard = std::max<int64_t>(group.elements() / config.run.ranks, 1);
      for (const char* op : {"adamw", "global_norm"}) shapes.add({.op = op, .rows = 1, .width = shard});
    }
  };
  std::visit(add, config.model.type);
  return shapes.take();
}

std::string_view kernels_key(std::string_view op) {
  if (op == "add_layer_norm") return "layer_norm";
  if (op == "add_rms_norm") return "rms_norm";
  if (op == "swiglu") return "activation";
  return op;
}

}  // namespace strata::tools
