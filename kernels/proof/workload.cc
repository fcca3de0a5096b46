// SPDX-License-Identifier: MIT
#include "kernels/proof/workload.h"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "kernels/activation/activation.h"
#include "kernels/adamw/adamw.h"
#include "kernels/attention/attention.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/dropout/dropout.h"
#include "kernels/embedding/embedding.h"
#include "kernels/global_norm/global_norm.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/linear/linear.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rotary/rotary.h"
#include "kernels/swiglu/swiglu.h"

namespace strata::kernels {
namespace {

constexpr double kEpsilon = 1e-5;

// Makes the inputs of one op.
struct Maker {
  const OpShape& shape;
  at::TensorOptions options;

  Tensor random(at::IntArrayRef sizes) const { return at::randn(sizes, options); }
  Tensor norm_weight() const { return random({shape.width}).mul_(0.2).add_(1.0); }
  Tensor indices(int64_t end) const { return at::randint(0, end, {shape.rows}, options.dtype(at::kLong)); }
  Tensor number(double value) const { return at::full({}, value, options.dtype(at::kFloat)); }
};

Workload linear_workload(const Maker& make) {
  const OpShape& s = make.shape;
  Workload w;
  w.inputs.leaves = {make.random({s.rows, s.width}),
                     make.random({s.outputs, s.width}).div_(std::sqrt(double(s.width)))};
  if (s.bias) w.inputs.leaves.push_back(make.random({s.outputs}));
  w.run = [kind = s.activation](const Inputs& in, Level level) -> std::vector<Tensor> {
    return {linear(in.leaves[0], in.leaves[1], in.leaves.size() > 2 ? in.leaves[2] : Tensor(), kind, level)};
  };
  return w;
}

Workload norm_workload(const Maker& make) {
  const OpShape& s = make.shape;
  const bool adds = s.op.starts_with("add_"), root_mean_square = s.op.ends_with("rms_norm");
  const bool activated = s.op.ends_with("_gelu_tanh");
  Workload w;
  w.split_leaves = w.split_results = adds ? 2 : 1;
  for (size_t i = 0; i < w.split_leaves; ++i) w.inputs.leaves.push_back(make.random({s.rows, s.width}));
  w.inputs.leaves.push_back(make.norm_weight());
  if (s.bias) w.inputs.leaves.push_back(make.random({s.width}));
  w.run = [=](const Inputs& in, Level level) -> std::vector<Tensor> {
    const auto& x = in.leaves;
    const size_t at = adds ? 2 : 1;
    const Tensor &weight = x[at], bias = x.size() > at + 1 ? x[at + 1] : Tensor();
    if (activated) return {layer_norm_gelu_tanh(x[0], weight, bias, kEpsilon, level)};
    if (!adds) {
      return {root_mean_square ? rms_norm(x[0], weight, kEpsilon, level)
                               : layer_norm(x[0], weight, bias, kEpsilon, level)};
    }
    const auto [y, sum] = root_mean_square ? add_rms_norm(x[0], x[1], weight, kEpsilon, level)
                                           : add_layer_norm(x[0], x[1], weight, bias, kEpsilon, level);
    return {y, sum};
  };
  return w;
}

Workload activation_workload(const Maker& make) {
  Workload w;
  w.inputs.leaves = {make.random({make.shape.rows, make.shape.width})};
  w.run = [kind = make.shape.activation](const Inputs& in, Level level) -> std::vector<Tensor> {
    return {activation(in.leaves[0], kind, level)};
  };
  return w;
}

Workload swiglu_workload(const Maker& make) {
  Workload w;
  w.inputs.leaves = {make.random({make.shape.rows, 2 * make.shape.width})};
  w.run = [](const Inputs& in, Level level) -> std::vector<Tensor> { return {swiglu(in.leaves[0], level)}; };
  return w;
}

// With a residual, the first leaf is the residual.
Workload dropout_workload(const Maker& make) {
  constexpr double kProbability = 0.1;
  constexpr int64_t kSite = 5;
  const bool adds = make.shape.op.starts_with("add_");
  Workload w;
  w.split_leaves = adds ? 2 : 1;
  for (size_t i = 0; i < w.split_leaves; ++i)
    w.inputs.leaves.push_back(make.random({make.shape.rows, make.shape.width}));
  w.inputs.constants = {at::full({1}, 0x123456789abcdef, make.options.dtype(at::kLong))};
  w.run = [adds](const Inputs& in, Level level) -> std::vector<Tensor> {
    const std::vector<Tensor>& x = in.leaves;
    const Tensor& key = in.constants[0];
    if (adds) return {add_dropout(x[0], x[1], kProbability, key, kSite, in.first_row, level)};
    return {dropout(x[0], kProbability, key, kSite, in.first_row, level)};
  };
  return w;
}

// Parts are sequences.
Workload rotary_workload(const Maker& make) {
  const OpShape& s = make.shape;
  Workload w;
  w.inputs.leaves = {make.random({s.rows / s.positions, s.positions, (s.heads + 2 * s.key_value_heads) * s.width})};
  const Tensor angle = at::rand({s.positions, s.width / 2}, make.options.dtype(at::kFloat)).mul_(6.28);
  w.inputs.constants = {at::cos(angle), at::sin(angle)};
  w.overwrites = true;
  w.run = [heads = s.heads, shared = s.key_value_heads](const Inputs& in, Level level) -> std::vector<Tensor> {
    return {rotary(in.leaves[0], in.constants[0], in.constants[1], heads, shared, level)};
  };
  w.has_backward = [](Level level) { return RotaryOp::kKernels.slot(level).backward != nullptr; };
  w.backward_in_place = [heads = s.heads, shared = s.key_value_heads](Tensor gradient, const Inputs& in, Level level) {
    RotaryOp::kKernels.slot(level).backward(std::move(gradient), in.constants[0], in.constants[1], heads, shared);
  };
  return w;
}

Workload attention_workload(const Maker& make) {
  const OpShape& s = make.shape;
  Workload w;
  w.inputs.leaves = {make.random({s.rows / s.positions, s.positions, (s.heads + 2 * s.key_value_heads) * s.width})};
  w.run = [heads = s.heads, shared = s.key_value_heads, causal = s.causal](const Inputs& in,
                                                                           Level level) -> std::vector<Tensor> {
    return {attention(in.leaves[0], heads, shared, {.causal = causal}, level)};
  };
  return w;
}

Workload embedding_workload(const Maker& make) {
  Workload w;
  w.split_leaves = 0;
  w.split_constants = 1;
  w.inputs.leaves = {make.random({make.shape.outputs, make.shape.width})};
  w.inputs.constants = {make.indices(make.shape.outputs)};
  w.run = [](const Inputs& in, Level level) -> std::vector<Tensor> {
    return {embedding(in.constants[0], in.leaves[0], level)};
  };
  return w;
}

Workload cross_entropy_workload(const Maker& make) {
  const OpShape& s = make.shape;
  Workload w;
  w.split_constants = 1;
  w.split_results = 0;
  w.overwrites = true;
  w.inputs.leaves = {make.random({s.rows, s.width}).mul_(3.0)};
  w.inputs.constants = {make.indices(s.width), make.number(1.0 / double(std::max<int64_t>(s.rows, 1)))};
  w.run = [](const Inputs& in, Level level) -> std::vector<Tensor> {
    return {cross_entropy(in.leaves[0], in.constants[0], in.constants[1], /*ignore_index=*/-100,
                          /*label_smoothing=*/0, level)};
  };
  return w;
}

int64_t sources_of(const OpShape& shape) { return shape.sources > 0 ? shape.sources : shape.rows; }

// Sources with small numbers have most of the edges, as in graphs of people and papers.
NeighborGraph skewed_graph(const OpShape& shape) {
  const int64_t sources = sources_of(shape);
  const Tensor from = at::rand({shape.edges}).pow_(3).mul_(double(sources)).to(at::kLong).clamp_max_(sources - 1);
  return NeighborGraph::from_edges(from, at::randint(0, shape.rows, {shape.edges}, at::kLong), sources, shape.rows);
}

// Returns the values of the edges of `count` targets.
Tensor edges_of(const Tensor& of_all, const NeighborGraph& graph, int64_t first, int64_t count) {
  if (count == graph.targets) return of_all;
  const Tensor& offsets = graph.by_target.offsets;
  const int64_t begin = offsets[first].item<int64_t>();
  return of_all.narrow(0, begin, offsets[first + count].item<int64_t>() - begin);
}

// Returns the graph of some of the targets. The formula, which is evaluated in parts, reads only this side of the
// graph.
NeighborGraph part_of(const NeighborGraph& graph, int64_t first, int64_t count) {
  if (count == graph.targets) return graph;
  NeighborGraph part = graph;
  const Tensor offsets = graph.by_target.offsets.narrow(0, first, count + 1);
  part.targets = count;
  part.by_target = {};
  part.by_target.offsets = offsets.sub(offsets[0]);
  part.by_target.neighbors = edges_of(graph.by_target.neighbors, graph, first, count);
  return part;
}

// Parts are ranges of targets; the constant holds their numbers.
Workload aggregate_workload(const Maker& make) {
  const OpShape& s = make.shape;
  Workload w;
  w.split_leaves = 0;
  w.split_constants = 1;
  w.inputs.leaves = {make.random({sources_of(s), s.width})};
  w.inputs.constants = {at::arange(s.rows, make.options.dtype(at::kLong))};
  const NeighborGraph graph = skewed_graph(s).to(make.options.device());
  const Tensor weights = s.weighted ? at::randn({s.edges}, make.options.dtype(at::kFloat)) : Tensor();
  w.run = [graph, weights, reduction = s.reduction](const Inputs& in, Level level) -> std::vector<Tensor> {
    const int64_t targets = in.constants[0].size(0);
    const NeighborGraph part = part_of(graph, in.first_row, targets);
    const Tensor weight = weights.defined() ? edges_of(weights, graph, in.first_row, targets) : Tensor();
    return {neighbor_aggregate(in.leaves[0], part, weight, reduction, level)};
  };
  return w;
}

// Parts are ranges of targets; their scores are the first leaf.
Workload neighbor_attention_workload(const Maker& make) {
  const OpShape& s = make.shape;
  Workload w;
  w.inputs.leaves = {make.random({s.rows, s.heads}), make.random({sources_of(s), s.heads}),
                     make.random({sources_of(s), s.heads, s.width})};
  const NeighborGraph graph = skewed_graph(s).to(make.options.device());
  w.run = [graph](const Inputs& in, Level level) -> std::vector<Tensor> {
    const NeighborGraph part = part_of(graph, in.first_row, in.leaves[0].size(0));
    return {neighbor_attention(in.leaves[2], in.leaves[1], in.leaves[0], part, /*negative_slope=*/0.2, level)};
  };
  return w;
}

Workload linear_cross_entropy_workload(const Maker& make) {
  const OpShape& s = make.shape;
  Workload w;
  w.split_constants = 1;
  w.split_results = 0;
  w.timed_whole = true;
  w.inputs.leaves = {make.random({s.rows, s.width}),
                     make.random({s.outputs, s.width}).div_(std::sqrt(double(s.width)))};
  w.inputs.constants = {make.indices(s.outputs), make.number(1.0 / double(std::max<int64_t>(s.rows, 1)))};
  w.run = [](const Inputs& in, Level level) -> std::vector<Tensor> {
    const Tensor loss = linear_cross_entropy(in.leaves[0], in.leaves[1], in.constants[0], in.constants[1],
                                             /*ignore_index=*/-100, /*label_smoothing=*/0, level);
    // Logits are rounded to the type of the inputs, so the loss is not more exact.
    return {loss.to(in.leaves[0].scalar_type())};
  };
  return w;
}

// Master and moments are fp32; gradient and compute copy have the dtype.
Workload adamw_workload(const Maker& make) {
  const int64_t n = make.shape.width;
  const auto wide = make.options.dtype(at::kFloat);
  Workload w;
  w.differentiable = false;
  w.overwrites = true;
  w.split_leaves = 5;
  w.split_results = 4;
  w.inputs.leaves = {at::randn({n}, wide), at::randn({n}, wide).mul_(0.1), at::rand({n}, wide), make.random({n}),
                     at::zeros({n}, make.options)};
  w.inputs.constants = {make.number(0.015625), make.number(3), make.number(0.75), make.number(0)};
  w.run = [](const Inputs& in, Level level) -> std::vector<Tensor> {
    Tensor master = in.leaves[0], first = in.leaves[1], second = in.leaves[2], copy = in.leaves[4];
    adamw(master, first, second, in.leaves[3], copy,
          {in.constants[0], in.constants[1], in.constants[2], in.constants[3]}, {0.9, 0.95, 1e-8, 0.1}, level);
    return {master, first, second, copy};
  };
  return w;
}

Workload global_norm_workload(const Maker& make) {
  Workload w;
  w.differentiable = false;
  w.split_results = 0;
  w.inputs.leaves = {make.random({make.shape.width})};
  w.run = [](const Inputs& in, Level level) -> std::vector<Tensor> { return {global_norm({in.leaves[0]}, level)}; };
  return w;
}

}  // namespace

Workload make_workload(const OpShape& shape, at::ScalarType dtype, at::Device device) {
  static const std::map<std::string, Workload (*)(const Maker&)> kMakers = {
      {"linear", linear_workload},
      {"layer_norm", norm_workload},
      {"add_layer_norm", norm_workload},
      {"layer_norm_gelu_tanh", norm_workload},
      {"rms_norm", norm_workload},
      {"add_rms_norm", norm_workload},
      {"activation", activation_workload},
      {"swiglu", swiglu_workload},
      {"rotary", rotary_workload},
      {"attention", attention_workload},
      {"embedding", embedding_workload},
      {"dropout", dropout_workload},
      {"add_dropout", dropout_workload},
      {"cross_entropy", cross_entropy_workload},
      {"linear_cross_entropy", linear_cross_entropy_workload},
      {"neighbor_aggregate", aggregate_workload},
      {"neighbor_attention", neighbor_attention_workload},
      {"adamw", adamw_workload},
      {"global_norm", global_norm_workload},
  };
  const auto maker = kMakers.find(shape.op);
  TORCH_CHECK(maker != kMakers.end(), "no workload is known of op ", shape.op);
  at::manual_seed(1);
  Workload workload = maker->second({shape, at::TensorOptions(dtype).device(device)});
  workload.shape = shape;
  workload.dtype = dtype;
  return workload;
}

Inputs fresh_inputs(const Workload& workload) {
  Inputs inputs = workload.inputs;
  for (Tensor& leaf : inputs.leaves) leaf = leaf.clone().requires_grad_(workload.differentiable);
  return inputs;
}

DeterministicScope::DeterministicScope(const OpShape& shape, Level level)
    : before_(at::globalContext().deterministicAlgorithms()) {
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // filling would count in the time
  if (!shape.deterministic) return;
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/level == Level::torchscript);
}

DeterministicScope::~DeterministicScope() {
  at::globalContext().setDeterministicAlgorithms(before_, /*warn_only=*/false);
}

std::vector<Tensor> random_gradients(const std::vector<Tensor>& results) {
  at::manual_seed(2);
  std::vector<Tensor> gradients;
  for (const Tensor& result : results) gradients.push_back(at::randn_like(result.detach()));
  return gradients;
}

}  // namespace strata::kernels
