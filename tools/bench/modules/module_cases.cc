// SPDX-License-Identifier: MIT
#include "tools/bench/modules/module_cases.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/triu.h>

#include <algorithm>
#include <memory>
#include <variant>

#include "base/errors.h"
#include "kernels/activation/activation.h"
#include "modules/attention.h"
#include "modules/config/block_config.h"
#include "modules/graph/graph_convolution.h"
#include "modules/linear.h"
#include "modules/mlp.h"
#include "modules/norm.h"
#include "modules/rotary_tables.h"
#include "modules/transformer_block.h"
#include "trainer/config/load_config.h"
#include "trainer/data/graphs/convolution_matrix.h"
#include "trainer/data/graphs/synthetic_graph.h"

namespace strata::tools {
namespace {

namespace naive = kernels::baselines;
using kernels::Activation;
using modules::BlockConfig;
using modules::Scope;
using modules::StepContext;
using trainer::TrainerConfig;
using Function = ModuleCase::Function;

// The input of a maker of cases: the configuration, and its model if it is one of blocks.
struct Sizes {
  TrainerConfig config;
  at::Device device;
};

const modules::TransformerConfig& transformer(const Sizes& sizes) {
  return std::get<modules::TransformerConfig>(sizes.config.model.type);
}

std::vector<int64_t> tokens(const Sizes& sizes) {
  const modules::TransformerConfig& model = transformer(sizes);
  return {sizes.config.micro_batch, model.sequence, model.width};
}

// The product of queries, keys and values.
ModuleCase linear(const Sizes& sizes) {
  const int64_t width = transformer(sizes).width;
  return {.input = tokens(sizes),
          .construct = [=](const Scope& scope) -> Function {
            return modules::Linear(scope, {.outputs = 3 * width, .inputs = width});
          },
          .naive = naive::linear};
}

// The first product of the MLP, which ends in the tanh form of GELU.
ModuleCase linear_activation(const Sizes& sizes) {
  const BlockConfig block = block_config(transformer(sizes));
  return {.input = tokens(sizes),
          .construct = [=](const Scope& scope) -> Function {
            return modules::Linear(
                scope, {.outputs = block.feed_forward, .inputs = block.width, .activation = Activation::gelu_tanh});
          },
          .naive = [](const Parameters& p, const Tensor& x) { return at::gelu(naive::linear(p, x), "tanh"); }};
}

ModuleCase norm(const Sizes& sizes, bool gelu_tanh) {
  const BlockConfig block = block_config(transformer(sizes));
  return {.input = tokens(sizes),
          .construct = [=](const Scope& scope) -> Function {
            const modules::Norm norm(scope,
                                     {.width = block.width, .epsilon = block.norm_epsilon, .gelu_tanh = gelu_tanh});
            return [norm](const Tensor& x) { return norm.normalize_sum(x); };
          },
          .naive =
              [=](const Parameters& p, const Tensor& x) {
                const Tensor y = naive::layer_norm(p, x, block.norm_epsilon);
                return gelu_tanh ? at::gelu(y, "tanh") : y;
              }};
}

// The context of a step and the options of the baseline, with the same tables of rotary positions.
struct AttentionStep {
  StepContext context;
  naive::AttentionOptions options;
};

AttentionStep attention_step(const modules::TransformerConfig& model, at::Device device) {
  AttentionStep step{{}, {.heads = model.heads, .key_value_heads = model.key_value_heads_or_default()}};
  const at::TensorOptions booleans = at::TensorOptions(at::kBool).device(device);
  step.options.later = at::triu(at::ones({model.sequence, model.sequence}, booleans), /*diagonal=*/1);
  if (!model.has_rotary_positions()) return step;
  modules::RotaryTables tables = modules::rotary_tables(model, model.sequence);
  tables = {tables.cosine.to(device), tables.sine.to(device)};
  const auto [cosine, sine] = tables.of(0);
  step.options.cosine = at::cat({cosine, cosine}, -1), step.options.sine = at::cat({sine, sine}, -1);
  step.context.put(std::make_shared<const modules::RotaryTables>(tables));
  return step;
}

ModuleCase attention(const Sizes& sizes) {
  const BlockConfig block = block_config(transformer(sizes));
  const AttentionStep step = attention_step(transformer(sizes), sizes.device);
  return {.input = tokens(sizes),
          .construct = [=](const Scope& scope) -> Function {
            const modules::Attention attention(scope, block, /*layer=*/0);
            return [=](const Tensor& x) { return attention(x, step.context); };
          },
          .naive = [=](const Parameters& p, const Tensor& x) { return naive::attention(p, x, step.options); },
          .heads = block.heads,
          .key_value_heads = block.key_value_heads};
}

// A gated MLP if the model is a llama.
ModuleCase mlp(const Sizes& sizes) {
  const BlockConfig block = block_config(transformer(sizes));
  return {.input = tokens(sizes),
          .construct = [=](const Scope& scope) -> Function {
            const modules::Mlp mlp(scope, block);
            return [=](const Tensor& x) { return mlp(x, {}); };
          },
          .naive = [=](const Parameters& p,
                       const Tensor& x) { return block.gated ? naive::swiglu(p, x) : naive::mlp(p, x, "tanh"); }};
}

// x + attention(norm1(x)), then x + mlp(norm2(x)). The next layer would do the last sum, which is a part of it here.
ModuleCase block_case(const BlockConfig& block, std::vector<int64_t> input, const AttentionStep& step) {
  return {.input = std::move(input),
          .construct = [=](const Scope& scope) -> Function {
            const modules::TransformerBlock layer(scope, /*index=*/0, block);
            return [=](const Tensor& x) {
              const auto [residual, branch] = layer({x, {}}, step.context);
              return at::add(residual, branch);
            };
          },
          .naive =
              [=](const Parameters& p, const Tensor& x) {
                const auto normed = [&](const char* name, const Tensor& of) {
                  const Parameters norm = naive::part_of(p, name);
                  return block.root_mean_square ? naive::rms_norm(norm, of, block.norm_epsilon)
                                                : naive::layer_norm(norm, of, block.norm_epsilon);
                };
                const Parameters mlp = naive::part_of(p, "mlp");
                const Tensor middle =
                    at::add(x, naive::attention(naive::part_of(p, "attention"), normed("norm1", x), step.options));
                const Tensor y = normed("norm2", middle);
                return at::add(middle, block.gated ? naive::swiglu(mlp, y) : naive::mlp(mlp, y, "none"));
              },
          .heads = block.heads,
          .key_value_heads = block.key_value_heads};
}

ModuleCase transformer_block(const Sizes& sizes) {
  return block_case(block_config(transformer(sizes)), tokens(sizes), attention_step(transformer(sizes), sizes.device));
}

ModuleCase vit_block(const Sizes& sizes) {
  const auto& model = std::get<modules::VisionTransformerConfig>(sizes.config.model.type);
  return block_case(block_config(model), {sizes.config.micro_batch, model.tokens(), model.width},
                    {{}, {.heads = model.heads, .key_value_heads = model.heads}});
}

// A convolution of hidden states over a random graph.
ModuleCase graph_convolution(const Sizes& sizes) {
  const auto& model = std::get<modules::GraphNetworkConfig>(sizes.config.model.type);
  const auto& data = std::get<trainer::SyntheticGraphDataConfig>(sizes.config.data.type);
  const trainer::GraphData graph = trainer::make_graph(
      {.nodes = data.nodes, .edges = data.edges, .features = 1, .classes = 2, .sparse_features = false, .seed = 1});
  const trainer::SparseRows rows = trainer::convolution_matrix(model, graph);
  modules::GraphStep step;
  step.layers = {
      modules::WeightedGraph{kernels::NeighborGraph::from_csr(rows.offsets, rows.columns, data.nodes), rows.values}.to(
          sizes.device)};
  StepContext context;
  context.put(std::make_shared<const modules::GraphStep>(step));
  const Tensor sources = rows.columns.to(sizes.device),
               targets = at::repeat_interleave(at::arange(data.nodes), rows.offsets.diff()).to(sizes.device);
  constexpr int64_t kHidden = 1;  // the first layer whose inputs are hidden states with and without a projection
  return {
      .input = {data.nodes, model.inputs_of(kHidden)},
      .construct = [=](const Scope& scope) -> Function {
        const modules::GraphConvolution convolution(scope, model, kHidden, /*aggregated_once=*/false);
        return [=](const Tensor& x) { return convolution(x, context); };
      },
      .naive = [=](const Parameters& p, const Tensor& x) { return naive::sage_convolution(p, x, sources, targets); }};
}

// A configuration has the keys of its file, with these changes.
struct Source {
  const char* file;
  std::vector<std::string> changes = {};
};

struct Maker {
  const char* name;
  std::function<ModuleCase(const Sizes&)> make;
  Source on_cpu, on_gpu;
};

const std::vector<Maker>& makers() {
  static const Source kSmallGpt{"quickstart.yaml", {"model.family=gpt2", "model.feed_forward=512"}};
  static const Source kGpt{"gpt2_124m.yaml", {"micro_batch=16"}};
  static const Source kSmallLlama{"quickstart.yaml"}, kLlama{"llama_1b.yaml", {"micro_batch=2"}};
  static const std::vector<Maker> all = {
      {"linear", linear, kSmallGpt, kGpt},
      {"linear_activation", linear_activation, kSmallGpt, kGpt},
      {"norm", [](const Sizes& sizes) { return norm(sizes, /*gelu_tanh=*/false); }, kSmallGpt, kGpt},
      {"norm_activation", [](const Sizes& sizes) { return norm(sizes, /*gelu_tanh=*/true); }, kSmallGpt, kGpt},
      {"attention", attention, kSmallGpt, kGpt},
      {"mlp", mlp, kSmallGpt, kGpt},
      {"swiglu", mlp, kSmallLlama, kLlama},
      {"transformer_block", transformer_block, kSmallLlama, kLlama},
      {"vit_block",
       vit_block,
       {"quickstart_vision.yaml"},
       {"quickstart_vision.yaml",
        {"model={type: vision_transformer, size: vit_base_patch16_224, classes: 1000}", "micro_batch=128", "batch=256",
         "precision.compute=bfloat16"}}},
      {"graph_convolution",
       graph_convolution,
       {"quickstart_graph.yaml", {"data={type: synthetic_graph, nodes: 82115, edges: 230620}", "model.layers=3"}},
       {"arxiv_size.yaml", {"model.norm=true"}}}};
  return all;
}

std::string replaced(std::string name, const std::string& part, const std::string& by) {
  return name.replace(name.find(part), part.size(), by);
}

}  // namespace

std::vector<std::string> module_names() {
  std::vector<std::string> names;
  for (const Maker& maker : makers()) names.emplace_back(maker.name);
  return names;
}

ModuleCase module_case(const std::string& name, const std::string& configs, at::Device device) {
  std::string names;
  for (const Maker& maker : makers()) {
    if (maker.name == name) {
      const Source& source = device.is_cuda() ? maker.on_gpu : maker.on_cpu;
      const Sizes sizes{trainer::load_trainer_config(configs + "/" + source.file, source.changes).config, device};
      ModuleCase made = maker.make(sizes);
      made.name = name, made.config = source.file;
      return made;
    }
    names += (names.empty() ? "" : ", ") + std::string(maker.name);
  }
  throw Error(ExitCode::configuration, "there is no module " + name + "; modules: " + names);
}

std::vector<std::pair<std::string, int64_t>> separate_parameters(const ModuleCase& module, const std::string& name,
                                                                 int64_t rows) {
  if (name.find("gate_up.") != std::string::npos) {
    return {{replaced(name, "gate_up", "gate"), rows / 2}, {replaced(name, "gate_up", "up"), rows / 2}};
  }
  if (name.find("qkv.") == std::string::npos) return {{name, rows}};
  const int64_t head = rows / (module.heads + 2 * module.key_value_heads), keys = module.key_value_heads * head;
  return {{replaced(name, "qkv", "query"), module.heads * head},
          {replaced(name, "qkv", "key"), keys},
          {replaced(name, "qkv", "value"), keys}};
}

}  // namespace strata::tools
