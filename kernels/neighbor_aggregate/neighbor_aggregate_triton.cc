// SPDX-License-Identifier: MIT
// Level triton of neighbor_aggregate and neighbor_attention: calls the kernels of neighbor_aggregate_triton.py with
// tensors.
#include <ATen/ops/arange.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/empty.h>

#include "kernels/neighbor_aggregate/neighbor_aggregate.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate_triton_kernels.h"

namespace strata::kernels {
namespace {

int64_t tasks_of(const Adjacency& rows) { return rows.pieces + rows.rows(); }

Tensor partials_of(const Adjacency& rows, int64_t width, const Tensor& like, at::ScalarType type = at::kFloat) {
  return at::empty({rows.pieces, width}, like.options().dtype(type));
}

void join_sums(const Adjacency& rows, const Tensor& partials, const Tensor& y, int64_t width, bool mean) {
  launch_neighbor_join_sums_triton(partials, y, rows.offsets, rows.long_rows, rows.first_pieces, width, mean,
                                   rows.long_rows.size(0));
}

// y [rows, width] = the sum of factor [edges] * x[neighbor]. `neighbors` has the neighbors of the rows, or edges in
// their place.
Tensor sum(const Adjacency& rows, const Tensor& neighbors, const Tensor& x, const Tensor& factor, bool mean) {
  const int64_t width = x.size(1);
  const Tensor y = at::empty({rows.rows(), width}, x.options()), partials = partials_of(rows, width, x);
  launch_neighbor_sum_triton(x, y, partials, rows.offsets, neighbors, rows.piece_rows, rows.piece_begins, factor,
                             rows.pieces, kLongRow, tasks_of(rows), width, mean, factor.defined());
  join_sums(rows, partials, y, width, mean);
  return y;
}

// Computes y [rows, heads, width]. The targets are the rows or the neighbors.
Tensor attention_sum(const Adjacency& rows, const Tensor& x, const Tensor& row_scores, const Tensor& neighbor_scores,
                     const Tensor& logsumexp, double negative_slope, bool rows_are_targets) {
  const int64_t heads = x.size(1), width = x.size(2);
  const Tensor y = at::empty({rows.rows(), heads, width}, x.options()), partials = partials_of(rows, heads * width, x);
  launch_neighbor_attention_sum_triton(x, y, partials, rows.offsets, rows.neighbors, rows.piece_rows, rows.piece_begins,
                                       row_scores, neighbor_scores, logsumexp, rows.pieces, kLongRow, tasks_of(rows),
                                       heads, width, negative_slope, rows_are_targets);
  join_sums(rows, partials, y, heads * width, /*mean=*/false);
  return y;
}

// The factors of the messages of by_source, in its order; undefined if all factors are 1.
Tensor factor_by_source(const NeighborGraph& graph, const Tensor& weight, bool mean) {
  Tensor factor = weight.defined() ? weight.index_select(0, graph.edge_by_source) : Tensor();
  if (!mean) return factor;
  const Tensor inverse_degree = at::diff(graph.by_target.offsets).clamp_min_(1).to(at::kFloat).reciprocal_();
  const Tensor scale = inverse_degree.index_select(0, graph.by_source.neighbors);
  return factor.defined() ? factor.mul_(scale) : scale;
}

}  // namespace

NeighborAggregateOp::Output neighbor_aggregate_forward_triton(const Tensor& x_SF, const NeighborGraph& graph,
                                                              const Tensor& edge_weight_E, Reduction reduction) {
  const Tensor x = x_SF.contiguous(), weight = contiguous_fp32(edge_weight_E);
  const Adjacency& rows = graph.by_target;
  if (reduction != Reduction::max)
    return {sum(rows, rows.neighbors, x, weight, reduction == Reduction::mean), Tensor()};
  const int64_t width = x.size(1);
  const Tensor y = at::empty({graph.targets, width}, x.options());
  const Tensor largest = at::empty({graph.targets, width}, x.options().dtype(at::kInt));
  const Tensor partials = partials_of(rows, width, x), edges = partials_of(rows, width, x, at::kInt);
  launch_neighbor_max_triton(x, y, largest, partials, edges, rows.offsets, rows.neighbors, rows.piece_rows,
                             rows.piece_begins, weight, rows.pieces, kLongRow, tasks_of(rows), width, weight.defined());
  launch_neighbor_join_largest_triton(partials, edges, y, largest, rows.long_rows, rows.first_pieces, width,
                                      rows.long_rows.size(0));
  return {y, largest};
}

NeighborAggregateOp::Gradient neighbor_aggregate_backward_triton(const Tensor& grad_y_TF, const Tensor& x_SF,
                                                                 const NeighborGraph& graph,
                                                                 const Tensor& edge_weight_E, Reduction reduction,
                                                                 const Tensor& largest_TF,
                                                                 const NeighborAggregateOp::Wanted& wanted,
                                                                 const GradientDestination& into) {
  const Tensor grad_y = grad_y_TF.contiguous();
  const int64_t width = grad_y.size(1);
  const bool mean = reduction == Reduction::mean;
  const Adjacency &by_target = graph.by_target, &by_source = graph.by_source;
  NeighborAggregateOp::Gradient gradient;
  if (wanted.x) {
    const Tensor factor = factor_by_source(graph, contiguous_fp32(edge_weight_E), mean);
    Tensor grad_x;
    if (reduction != Reduction::max) {
      grad_x = sum(by_source, by_source.neighbors, grad_y, factor, /*mean=*/false);
    } else {
      grad_x = at::empty({graph.sources, width}, grad_y.options());
      const Tensor partials = partials_of(by_source, width, grad_y);
      launch_neighbor_max_backward_triton(grad_y, grad_x, partials, by_source.offsets, by_source.neighbors,
                                          by_source.piece_rows, by_source.piece_begins, factor, graph.edge_by_source,
                                          largest_TF, by_source.pieces, kLongRow, tasks_of(by_source), width,
                                          factor.defined());
      join_sums(by_source, partials, grad_x, width, /*mean=*/false);
    }
    gradient.x = accumulate(grad_x, into);
  }
  if (wanted.edge_weight) {
    const Tensor products = at::empty({graph.edges()}, grad_y.options().dtype(at::kFloat));
    launch_neighbor_edge_products_triton(grad_y, x_SF.contiguous(), products, by_target.offsets, by_target.neighbors,
                                         by_target.piece_rows, by_target.piece_begins, largest_TF, by_target.pieces,
                                         kLongRow, tasks_of(by_target), width, mean, largest_TF.defined());
    gradient.edge_weight = products.to(edge_weight_E.scalar_type());
  }
  return gradient;
}

NeighborAttentionOp::Output neighbor_attention_forward_triton(const Tensor& x_SHF, const Tensor& score_source_SH,
                                                              const Tensor& score_target_TH, const NeighborGraph& graph,
                                                              double negative_slope) {
  const Tensor source_scores = contiguous_fp32(score_source_SH), target_scores = contiguous_fp32(score_target_TH);
  const Adjacency& rows = graph.by_target;
  const int64_t heads = x_SHF.size(1);
  const Tensor logsumexp = at::empty({graph.targets, heads}, source_scores.options());
  const Tensor partials = partials_of(rows, heads, source_scores);
  launch_neighbor_score_logsumexp_triton(logsumexp, partials, rows.offsets, rows.neighbors, rows.piece_rows,
                                         rows.piece_begins, target_scores, source_scores, rows.pieces, kLongRow,
                                         tasks_of(rows), heads, negative_slope);
  launch_neighbor_join_logsumexp_triton(partials, logsumexp, rows.long_rows, rows.first_pieces, heads,
                                        rows.long_rows.size(0));
  return {attention_sum(rows, x_SHF.contiguous(), target_scores, source_scores, logsumexp, negative_slope,
                        /*rows_are_targets=*/true),
          logsumexp};
}

NeighborAttentionOp::Gradient neighbor_attention_backward_triton(const Tensor& grad_y_THF, const Tensor& x_SHF,
                                                                 const Tensor& score_source_SH,
                                                                 const Tensor& score_target_TH,
                                                                 const NeighborGraph& graph, double negative_slope,
                                                                 const Tensor& y_THF, const Tensor& logsumexp_TH) {
  const Tensor grad_y = grad_y_THF.contiguous(), x = x_SHF.contiguous();
  const Tensor source_scores = contiguous_fp32(score_source_SH), target_scores = contiguous_fp32(score_target_TH);
  const Adjacency &by_target = graph.by_target, &by_source = graph.by_source;
  const int64_t heads = x.size(1), width = x.size(2);
  const Tensor grad_x = attention_sum(by_source, grad_y, source_scores, target_scores, logsumexp_TH, negative_slope,
                                      /*rows_are_targets=*/false);
  const Tensor along_y = at::empty({graph.targets, heads}, source_scores.options());
  launch_neighbor_row_dots_triton(grad_y, y_THF, along_y, graph.targets * heads, width);
  const Tensor grad_score = at::empty({graph.edges(), heads}, source_scores.options());
  launch_neighbor_score_gradient_triton(grad_y, x, grad_score, by_target.offsets, by_target.neighbors,
                                        by_target.piece_rows, by_target.piece_begins, target_scores, source_scores,
                                        logsumexp_TH, along_y, by_target.pieces, kLongRow, tasks_of(by_target), heads,
                                        width, negative_slope);
  // Sums over the edges themselves: rows of grad_score, in the order of each side.
  const Tensor in_order = at::arange(graph.edges(), graph.edge_by_source.options());
  const Tensor grad_target = sum(by_target, in_order, grad_score, {}, /*mean=*/false);
  const Tensor grad_source = sum(by_source, graph.edge_by_source, grad_score, {}, /*mean=*/false);
  return {grad_x, grad_source.to(score_source_SH.scalar_type()), grad_target.to(score_target_TH.scalar_type())};
}

}  // namespace strata::kernels
