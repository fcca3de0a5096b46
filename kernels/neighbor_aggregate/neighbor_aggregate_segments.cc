// SPDX-License-Identifier: MIT
// Level aten on GPUs. Messages are computed for some features at a time and reduced by LibTorch's segment operators,
// which add in a fixed order.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/leaky_relu_backward.h>
#include <ATen/ops/log.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "kernels/neighbor_aggregate/neighbor_aggregate_aten.h"

namespace strata::kernels {
namespace {

// Elements of messages at a time: 1 GiB in fp32.
constexpr int64_t kMessages = int64_t{1} << 28;

// Calls body(first feature, number of features) for blocks of features.
template <class Body>
void for_each_feature(int64_t edges, int64_t width, const Body& body) {
  const int64_t step = std::clamp<int64_t>(kMessages / std::max<int64_t>(edges, 1), 1, std::max<int64_t>(width, 1));
  for (int64_t first = 0; first < width; first += step) body(first, std::min(step, width - first));
}

// Reduces the rows of data [edges, ...] by segments. `initial` is the result of a row without edges, and takes part in
// all others too.
Tensor segments(const Tensor& data, const char* reduction, const Tensor& offsets, double initial) {
  return at::segment_reduce(data, reduction, /*lengths=*/{}, /*indices=*/{}, offsets, /*axis=*/0, /*unsafe=*/true,
                            initial);
}

Tensor sums(const Tensor& data, const Tensor& offsets) { return segments(data, "sum", offsets, 0.0); }

Tensor row_of_edge(const Adjacency& adjacency) {
  return at::repeat_interleave(at::diff(adjacency.offsets), std::optional<int64_t>(adjacency.neighbors.size(0)));
}

Tensor inverse_degree(const Adjacency& adjacency, at::ScalarType type) {
  return at::diff(adjacency.offsets).clamp_min_(1).to(type).reciprocal_();
}

// The values of each edge's neighbor in these features, in the dtype of sums.
Tensor messages(const Adjacency& adjacency, const Tensor& x, int64_t first, int64_t count) {
  return x.narrow(1, first, count).to(sum_type(x.scalar_type())).index_select(0, adjacency.neighbors);
}

// Computes y = the sum of factor [edges] * x over the edges of each row. An undefined factor is 1.
void sum_rows(const Adjacency& adjacency, const Tensor& x, const Tensor& factor, const Tensor& y) {
  for_each_feature(adjacency.neighbors.size(0), x.size(1), [&](int64_t first, int64_t count) {
    Tensor message = messages(adjacency, x, first, count);
    if (factor.defined()) message.mul_(factor.unsqueeze(1));
    y.narrow(1, first, count).copy_(sums(message, adjacency.offsets));
  });
}

// dot [edges] += the dot product of the features of both ends of each edge.
void add_products(const NeighborGraph& graph, const Tensor& target_of_edge, const Tensor& target_rows,
                  const Tensor& source_rows, const Tensor& dot) {
  for_each_feature(graph.edges(), target_rows.size(1), [&](int64_t first, int64_t count) {
    const Tensor target_features =
        target_rows.narrow(1, first, count).to(dot.scalar_type()).index_select(0, target_of_edge);
    dot.add_(messages(graph.by_target, source_rows, first, count).mul_(target_features).sum(1));
  });
}

}  // namespace

NeighborAggregateOp::Output aggregate_by_segments(const Tensor& x_SF, const NeighborGraph& graph,
                                                  const Tensor& edge_weight_E, Reduction reduction) {
  const at::ScalarType sum_dtype = sum_type(x_SF.scalar_type());
  const Adjacency& rows = graph.by_target;
  const Tensor weight = edge_weight_E.defined() ? edge_weight_E.to(sum_dtype) : Tensor();
  const Tensor y = at::empty({graph.targets, x_SF.size(1)}, x_SF.options());
  if (reduction != Reduction::max) {
    sum_rows(rows, x_SF, weight, y);
    // In half precision this rounds twice, because the sum is stored in the dtype of x.
    if (reduction == Reduction::mean) y.mul_(inverse_degree(rows, sum_dtype).unsqueeze(1));
    return {y, Tensor()};
  }
  // Edges are numbered in fp64, which segment operators support and which represents every number exactly.
  const auto edge_options = x_SF.options().dtype(at::kDouble);
  const Tensor largest = at::empty({graph.targets, x_SF.size(1)}, x_SF.options().dtype(at::kInt));
  const Tensor target_of_edge = row_of_edge(rows), edge = at::arange(graph.edges(), edge_options).unsqueeze(1);
  const Tensor no_edge = at::full({}, double(graph.edges()), edge_options);
  const Tensor has_edges = at::diff(rows.offsets).ne(0).unsqueeze(1);
  for_each_feature(2 * graph.edges(), x_SF.size(1), [&](int64_t first, int64_t count) {
    Tensor message = messages(rows, x_SF, first, count);
    if (weight.defined()) message.mul_(weight.unsqueeze(1));
    const Tensor maxima = segments(message, "max", rows.offsets, -std::numeric_limits<double>::infinity());
    const Tensor taken = message.eq(maxima.index_select(0, target_of_edge)).logical_or_(message.isnan());
    const Tensor edges = segments(at::where(taken, edge, no_edge), "min", rows.offsets, double(graph.edges()));
    largest.narrow(1, first, count).copy_(at::where(has_edges, edges, -1.0));
    y.narrow(1, first, count).copy_(at::where(has_edges, maxima, 0.0));
  });
  return {y, largest};
}

NeighborAggregateOp::Gradient aggregate_backward_by_segments(const Tensor& grad_y_TF, const Tensor& x_SF,
                                                             const NeighborGraph& graph, const Tensor& edge_weight_E,
                                                             Reduction reduction, const Tensor& largest_TF,
                                                             const NeighborAggregateOp::Wanted& wanted,
                                                             const GradientDestination& into) {
  const at::ScalarType sum_dtype = sum_type(grad_y_TF.scalar_type());
  const int64_t width = grad_y_TF.size(1);
  const Adjacency &by_target = graph.by_target, &by_source = graph.by_source;
  Tensor grad_y = grad_y_TF;
  if (reduction == Reduction::mean)
    grad_y = grad_y.to(sum_dtype).mul(inverse_degree(by_target, sum_dtype).unsqueeze(1));
  const Tensor weight = edge_weight_E.defined() ? edge_weight_E.to(sum_dtype) : Tensor();
  NeighborAggregateOp::Gradient gradient;
  if (wanted.x) {
    const Tensor factor = weight.defined() ? weight.index_select(0, graph.edge_by_source) : Tensor();
    const Tensor grad_x = at::empty({graph.sources, width}, grad_y_TF.options());
    if (reduction != Reduction::max) {
      sum_rows(by_source, grad_y, factor, grad_x);
    } else {
      for_each_feature(2 * graph.edges(), width, [&](int64_t first, int64_t count) {
        Tensor message = messages(by_source, grad_y, first, count);
        if (factor.defined()) message.mul_(factor.unsqueeze(1));
        const Tensor taken = largest_TF.narrow(1, first, count).index_select(0, by_source.neighbors);
        message.masked_fill_(taken.ne(graph.edge_by_source.unsqueeze(1)), 0);
        grad_x.narrow(1, first, count).copy_(sums(message, by_source.offsets));
      });
    }
    gradient.x = accumulate(grad_x, into);
  }
  if (wanted.edge_weight) {
    const Tensor target_of_edge = row_of_edge(by_target);
    const Tensor dot = at::zeros({graph.edges()}, grad_y_TF.options().dtype(sum_dtype));
    if (reduction != Reduction::max) {
      add_products(graph, target_of_edge, grad_y, x_SF, dot);
    } else {
      const Tensor edge = at::arange(graph.edges(), largest_TF.options()).unsqueeze(1);
      for_each_feature(2 * graph.edges(), width, [&](int64_t first, int64_t count) {
        const auto target_part = [&](const Tensor& t) {
          return t.narrow(1, first, count).index_select(0, target_of_edge);
        };
        Tensor product = messages(by_target, x_SF, first, count).mul_(target_part(grad_y));
        dot.add_(product.masked_fill_(target_part(largest_TF).ne(edge), 0).sum(1));
      });
    }
    gradient.edge_weight = dot.to(edge_weight_E.scalar_type());
  }
  return gradient;
}

NeighborAttentionOp::Output attend_by_segments(const Tensor& x_SHF, const Tensor& score_source_SH,
                                               const Tensor& score_target_TH, const NeighborGraph& graph,
                                               double negative_slope) {
  const at::ScalarType sum_dtype = sum_type(x_SHF.scalar_type());
  const Adjacency& rows = graph.by_target;
  const Tensor target_of_edge = row_of_edge(rows);
  const Tensor score = at::leaky_relu(score_source_SH.to(sum_dtype).index_select(0, rows.neighbors) +
                                          score_target_TH.to(sum_dtype).index_select(0, target_of_edge),
                                      negative_slope);
  const Tensor maxima = segments(score, "max", rows.offsets, -std::numeric_limits<double>::infinity());
  const Tensor probability = at::exp(score - maxima.index_select(0, target_of_edge));
  const Tensor total = sums(probability, rows.offsets);
  probability.div_(total.index_select(0, target_of_edge));
  const Tensor y = at::empty({graph.targets, x_SHF.size(1), x_SHF.size(2)}, x_SHF.options());
  for (int64_t h = 0; h < x_SHF.size(1); ++h)
    sum_rows(rows, x_SHF.select(1, h), probability.select(1, h), y.select(1, h));
  return {y, at::log(total).add_(maxima)};
}

NeighborAttentionOp::Gradient attend_backward_by_segments(const Tensor& grad_y_THF, const Tensor& x_SHF,
                                                          const Tensor& score_source_SH, const Tensor& score_target_TH,
                                                          const NeighborGraph& graph, double negative_slope,
                                                          const Tensor& y_THF, const Tensor& logsumexp_TH) {
  const at::ScalarType sum_dtype = sum_type(x_SHF.scalar_type());
  const int64_t heads = x_SHF.size(1);
  const Tensor target_of_edge = row_of_edge(graph.by_target);
  const Tensor score = score_source_SH.to(sum_dtype).index_select(0, graph.by_target.neighbors) +
                       score_target_TH.to(sum_dtype).index_select(0, target_of_edge);
  const Tensor probability =
      at::exp(at::leaky_relu(score, negative_slope) - logsumexp_TH.index_select(0, target_of_edge));
  const Tensor probability_by_source = probability.index_select(0, graph.edge_by_source);
  const Tensor grad_x = at::empty(x_SHF.sizes(), x_SHF.options());
  const Tensor grad_probability = at::zeros({heads, graph.edges()}, probability.options());
  for (int64_t h = 0; h < heads; ++h) {
    const Tensor grad_y = grad_y_THF.select(1, h);
    sum_rows(graph.by_source, grad_y, probability_by_source.select(1, h), grad_x.select(1, h));
    add_products(graph, target_of_edge, grad_y, x_SHF.select(1, h), grad_probability.select(0, h));
  }
  const Tensor delta = at::mul(grad_y_THF.to(sum_dtype), y_THF).sum(2);
  const Tensor grad_activated = (grad_probability.t() - delta.index_select(0, target_of_edge)).mul_(probability);
  const Tensor grad_score = at::leaky_relu_backward(grad_activated, score, negative_slope, /*self_is_result=*/false);
  return {
      grad_x,
      sums(grad_score.index_select(0, graph.edge_by_source), graph.by_source.offsets).to(score_source_SH.scalar_type()),
      sums(grad_score, graph.by_target.offsets).to(score_target_TH.scalar_type())};
}

}  // namespace strata::kernels
