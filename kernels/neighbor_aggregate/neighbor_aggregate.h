// SPDX-License-Identifier: MIT
// neighbor_aggregate: y[t] = the sum, mean or maximum of weight[e] * x[s] over the edges e from s to t.
// neighbor_attention: a sum with a softmax over the edges of t as weights (GAT, Velickovic et al. 2018):
//   score[e, h] = leaky_relu(score_source[s, h] + score_target[t, h], negative_slope)
//   y[t, h] = sum over e of softmax(score[., h])[e] * x[s, h]
// A target without edges gets 0. Sums are in fp32 or wider and in the same order every time. If several values are the
// maximum, the first one in the order of the edges gets the gradient. Levels triton and cuda, and aten on CPUs, store
// no tensor of [edges, F]. Level aten on GPUs stores blocks of features of up to 1 GiB in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/neighbor_aggregate/neighbor_graph.h"
#include "kernels/neighbor_aggregate/reduction.h"
#include "kernels/runtime/gradient_destination.h"
#include "kernels/runtime/kernel_table.h"

// S sources, T targets, E edges, H heads, F features
namespace strata::kernels {

// neighbor_aggregate(x, graph, edge_weight, reduction, level): y[t] = sum, mean or maximum of weight[e] * x[s] over the
// edges e from s to t
//
// x [S, F] and edge_weight [E] in the order of the graph's edges, in the dtype of x or fp32, or undefined -> y [T, F].
// The mean divides by the number of edges. x may be a weight: a sparse matrix [T, S] times a dense one [S, F].
// Saves the graph and edge_weight for backward, `largest` for max, and x if it is a leaf or edge_weight needs a
// gradient. Throws a ValueError if a shape, dtype or device does not match.
Tensor neighbor_aggregate(const Tensor& x_SF, const NeighborGraph& graph, const Tensor& edge_weight_E,
                          Reduction reduction, Level level);

// neighbor_attention(x, score_source, score_target, graph, negative_slope, level): y[t] = sum of softmax(score)[e] *
// x[s] over the edges of t, score[e] = leaky_relu(score_source[s] + score_target[t])
//
// x [S, H, F], scores [S, H] and [T, H] in the dtype of x or fp32 -> y [T, H, F]. Saves the graph, x, both scores, y
// and logsumexp for backward.
Tensor neighbor_attention(const Tensor& x_SHF, const Tensor& score_source_SH, const Tensor& score_target_TH,
                          const NeighborGraph& graph, double negative_slope, Level level);

struct NeighborAggregateOp {
  static constexpr std::string_view kName = "neighbor_aggregate";
  struct Output {
    Tensor y, largest;  // largest: int32 [T, F], the edge of the maximum or -1; only for max
  };
  struct Gradient {
    Tensor x, edge_weight;  // undefined if not needed; x also if it was written into a buffer
  };
  struct Wanted {
    bool x, edge_weight;
  };
  using Forward = Output(const Tensor& x_SF, const NeighborGraph& graph, const Tensor& edge_weight_E,
                         Reduction reduction);
  // x_SF is undefined if the gradient of edge_weight is not needed, `largest` if the reduction is not max.
  using Backward = Gradient(const Tensor& grad_y_TF, const Tensor& x_SF, const NeighborGraph& graph,
                            const Tensor& edge_weight_E, Reduction reduction, const Tensor& largest_TF,
                            const Wanted& wanted, const GradientDestination& into);
  static const KernelTable<NeighborAggregateOp> kKernels;
};

struct NeighborAttentionOp {
  static constexpr std::string_view kName = "neighbor_attention";
  struct Output {
    Tensor y, logsumexp;  // logsumexp: fp32 or wider [T, H], over the scores of each target's edges
  };
  struct Gradient {
    Tensor x, score_source, score_target;
  };
  using Forward = Output(const Tensor& x_SHF, const Tensor& score_source_SH, const Tensor& score_target_TH,
                         const NeighborGraph& graph, double negative_slope);
  using Backward = Gradient(const Tensor& grad_y_THF, const Tensor& x_SHF, const Tensor& score_source_SH,
                            const Tensor& score_target_TH, const NeighborGraph& graph, double negative_slope,
                            const Tensor& y_THF, const Tensor& logsumexp_TH);
  static const KernelTable<NeighborAttentionOp> kKernels;
};

NeighborAggregateOp::Forward neighbor_aggregate_forward_triton;
NeighborAggregateOp::Backward neighbor_aggregate_backward_triton;
NeighborAttentionOp::Forward neighbor_attention_forward_triton;
NeighborAttentionOp::Backward neighbor_attention_backward_triton;
NeighborAggregateOp::Forward neighbor_aggregate_forward_cuda;
NeighborAggregateOp::Backward neighbor_aggregate_backward_cuda;
NeighborAttentionOp::Forward neighbor_attention_forward_cuda;
NeighborAttentionOp::Backward neighbor_attention_backward_cuda;

using NeighborAggregateOps = OpList<NeighborAggregateOp, NeighborAttentionOp>;

}  // namespace strata::kernels
