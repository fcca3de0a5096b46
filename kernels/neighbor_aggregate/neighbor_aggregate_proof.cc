// SPDX-License-Identifier: MIT
#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>

#include <algorithm>
#include <cmath>

#include "kernels/neighbor_aggregate/neighbor_aggregate.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate_shape.h"
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"

namespace strata::kernels {
namespace {

// A rectangular graph. Some edges occur twice, and the last target and the last source have no edges. If there are
// enough edges, every second one comes from source 0 and every fourth one goes to target 0. Such long rows are computed
// in several pieces.
NeighborGraph random_graph(int64_t sources, int64_t targets, int64_t edges) {
  const Tensor from = at::randint(0, std::max<int64_t>(sources - 1, 1), {edges}, at::kLong);
  const Tensor to = at::randint(0, std::max<int64_t>(targets - 1, 1), {edges}, at::kLong);
  if (edges > 4 * kLongRow) {
    from.slice(0, 0, edges, /*step=*/2).fill_(0);
    to.slice(0, 1, edges, /*step=*/4).fill_(0);
  }
  return NeighborGraph::from_edges(from, to, sources, targets);
}

NeighborGraph graph_copied_to(c10::Device device, const NeighborGraph& graph) {
  return graph.with_each([&](const Tensor& tensor) { return copied_to(device, tensor); });
}

struct GraphCase {
  int64_t sources, targets, edges, width;
};

void add_aggregates(const GraphCase& s, const NeighborGraph& graph, const std::string& suffix,
                    std::vector<OpCase>& cases) {
  for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::max}) {
    for (const bool weighted : {false, true}) {
      const Tensor x = random({s.sources, s.width});
      // With edge weights, x is a weight: it is multiplied by a sparse matrix.
      const Leaves leaves = weighted ? Leaves{random({s.edges}), x} : Leaves{x};
      const NeighborAggregateShape shape{.targets = s.targets,
                                         .sources = s.sources,
                                         .width = s.width,
                                         .edges = s.edges,
                                         .reduction = reduction,
                                         .weighted = weighted};
      cases.push_back({shape,
                       "neighbor_aggregate_" + std::string(name(reduction)) + (weighted ? "_weighted_" : "_") + suffix,
                       leaves, leaves.size() - 1, [graph, reduction](const Leaves& leaves, Level level) -> Leaves {
                         const Tensor edge_weight = leaves.size() > 1 ? leaves[0] : Tensor();
                         const NeighborGraph there = graph_copied_to(leaves[0].device(), graph);
                         return {neighbor_aggregate(leaves.back(), there, edge_weight, reduction, level)};
                       }});
    }
  }
}

// The backward starts from the stored result. Gradients of scores are differences of products with it; those of a
// target's edges nearly cancel.
constexpr double kOfSourceScores = 2.5, kOfTargetScores = 12;

// The scores are random numbers times `spread`.
OpCase attention_case(const GraphCase& s, const NeighborGraph& graph, const std::string& name, double spread) {
  const int64_t heads = s.width % 4 == 0 ? 4 : 1, width = s.width / heads;
  const NeighborAttentionShape shape{
      .targets = s.targets, .sources = s.sources, .heads = heads, .head_width = width, .edges = s.edges};
  OpCase result{shape,
                name,
                {random({s.sources, heads, width}), random({s.sources, heads}).mul_(spread),
                 random({s.targets, heads}).mul_(spread)},
                0,
                [graph](const Leaves& leaves, Level level) -> Leaves {
                  const NeighborGraph there = graph_copied_to(leaves[0].device(), graph);
                  return {neighbor_attention(leaves[0], leaves[1], leaves[2], there, 0.2, level)};
                }};
  result.factors = {1, 1, kOfSourceScores, kOfTargetScores};
  // A gradient of a score is a difference of products of rows of x and output gradients, which may cancel. With large
  // scores most of them do, and what is left is the rounding of the stored result to 16 bits. One such rounding to bf16
  // is 1024 times as large as 64 roundings of fp32.
  const double product = std::sqrt(static_cast<double>(width)) * (spread > 1 ? 1024 : 1);
  result.operands = {0, 0, product, product};
  return result;
}

// The rows of 9 targets and of 9 sources with 700 edges have mostly 65 to 128 edges, several rounds of a warp.
std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const GraphCase& s :
       {GraphCase{9, 7, 30, 8}, GraphCase{50, 11, 70, 33}, GraphCase{11, 50, 70, 256}, GraphCase{200, 300, 1100, 40},
        GraphCase{400, 350, 1100, 131}, GraphCase{6, 5, 9, 1}, GraphCase{5, 4, 0, 16}, GraphCase{3, 0, 0, 8},
        GraphCase{25, 25, 100, 520}, GraphCase{9, 9, 700, 8}}) {
    const NeighborGraph graph = random_graph(s.sources, s.targets, s.edges);
    const std::string suffix = sizes_text({s.sources, s.targets, s.edges, s.width});
    add_aggregates(s, graph, suffix, cases);
    cases.push_back(attention_case(s, graph, "neighbor_attention_" + suffix, /*spread=*/1.0));
  }
  // Nearly all of the softmax is at one edge, and exp of a score that is not shifted by the largest overflows.
  for (const GraphCase& s : {GraphCase{50, 11, 70, 33}, GraphCase{9, 9, 700, 8}}) {
    const std::string suffix = sizes_text({s.sources, s.targets, s.edges, s.width});
    const NeighborGraph graph = random_graph(s.sources, s.targets, s.edges);
    cases.push_back(attention_case(s, graph, "neighbor_attention_large_" + suffix, /*spread=*/25.0));
  }
  return cases;
}

// Sources with small numbers have most of the edges, as in graphs of people and papers.
NeighborGraph skewed_graph(int64_t targets, int64_t sources, int64_t edges) {
  const Tensor from = at::rand({edges}).pow_(3).mul_(double(sources)).to(at::kLong).clamp_max_(sources - 1);
  return NeighborGraph::from_edges(from, at::randint(0, targets, {edges}, at::kLong), sources, targets);
}

// Returns the values of the edges of `count` targets from target `first` on.
Tensor edges_of(const Tensor& all_edges, const NeighborGraph& graph, int64_t first, int64_t count) {
  if (count == graph.targets) return all_edges;
  const Tensor& offsets = graph.by_target.offsets;
  const int64_t begin = offsets[first].item<int64_t>();
  return all_edges.narrow(0, begin, offsets[first + count].item<int64_t>() - begin);
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

// The messages of a row's edges are larger than the row.
int64_t row_elements(int64_t targets, int64_t edges, int64_t heads, int64_t width) {
  return std::max(width, edges / std::max<int64_t>(targets, 1) * width * heads);
}

// Parts are ranges of targets; the constant holds their numbers.
Workload aggregate_workload(const NeighborAggregateShape& s, const at::TensorOptions& options) {
  Workload w{s};
  w.split_leaves = 0;
  w.split_constants = 1;
  w.row_elements = row_elements(s.targets, s.edges, /*heads=*/1, s.width);
  w.inputs.leaves = {random({s.sources, s.width}, options)};
  w.inputs.constants = {at::arange(s.targets, options.dtype(at::kLong))};
  const NeighborGraph graph = skewed_graph(s.targets, s.sources, s.edges).to(options.device());
  const Tensor weights = s.weighted ? random({s.edges}, options.dtype(at::kFloat)) : Tensor();
  w.run = [graph, weights, reduction = s.reduction](const Inputs& in, Level level) -> Leaves {
    const int64_t targets = in.constants[0].size(0);
    const NeighborGraph part = part_of(graph, in.first_row, targets);
    const Tensor weight = weights.defined() ? edges_of(weights, graph, in.first_row, targets) : Tensor();
    return {neighbor_aggregate(in.leaves[0], part, weight, reduction, level)};
  };
  return w;
}

// Parts are ranges of targets; their scores are the first leaf.
Workload attention_workload(const NeighborAttentionShape& s, const at::TensorOptions& options) {
  Workload w{s};
  w.row_elements = row_elements(s.targets, s.edges, s.heads, s.head_width);
  w.factors = {1, kOfTargetScores, kOfSourceScores, 1};
  w.inputs.leaves = {random({s.targets, s.heads}, options), random({s.sources, s.heads}, options),
                     random({s.sources, s.heads, s.head_width}, options)};
  const NeighborGraph graph = skewed_graph(s.targets, s.sources, s.edges).to(options.device());
  w.run = [graph](const Inputs& in, Level level) -> Leaves {
    const NeighborGraph part = part_of(graph, in.first_row, in.leaves[0].size(0));
    return {neighbor_attention(in.leaves[2], in.leaves[1], in.leaves[0], part, /*negative_slope=*/0.2, level)};
  };
  return w;
}

Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  if (const auto* aggregate = shape.as<NeighborAggregateShape>()) return aggregate_workload(*aggregate, options);
  return attention_workload(*shape.as<NeighborAttentionShape>(), options);
}

// The size of the data set ogbn-arxiv.
constexpr int64_t kArxivNodes = 169'343, kArxivEdges = 2'315'598;

NeighborAggregateShape arxiv(Reduction reduction) {
  return {.targets = kArxivNodes, .sources = kArxivNodes, .width = 256, .edges = kArxivEdges, .reduction = reduction};
}

}  // namespace

OpProof neighbor_aggregate_proof() {
  return {
      // Level aten on GPUs stores the messages of weighted edges.
      .tolerances = {{"neighbor_aggregate", 2.5}, {"neighbor_attention"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {NeighborAggregateShape{
                           .targets = 40, .sources = 40, .width = 33, .edges = 150, .reduction = Reduction::mean},
                       NeighborAggregateShape{
                           .targets = 40, .sources = 57, .width = 33, .edges = 150, .weighted = true},
                       NeighborAttentionShape{.targets = 40, .sources = 57, .heads = 2, .head_width = 8, .edges = 150}},
      .gpu_shapes =
          {arxiv(Reduction::sum), arxiv(Reduction::mean), arxiv(Reduction::max),
           // The size of the data set ogbn-products.
           NeighborAggregateShape{.targets = 2'449'029, .sources = 2'449'029, .width = 256, .edges = 123'718'280},
           NeighborAttentionShape{
               .targets = kArxivNodes, .sources = kArxivNodes, .heads = 4, .head_width = 64, .edges = kArxivEdges}},
      .cpu_shapes = {NeighborAggregateShape{.targets = 4096, .sources = 4096, .width = 128, .edges = 30'000},
                     NeighborAttentionShape{
                         .targets = 2048, .sources = 2048, .heads = 4, .head_width = 16, .edges = 10'000}},
  };
}

}  // namespace strata::kernels
