// SPDX-License-Identifier: MIT
// Level cuda of neighbor_aggregate and neighbor_attention: calls the launchers of neighbor_aggregate.cu with tensors.
#include "kernels/neighbor_aggregate/neighbor_aggregate_cuda.h"

#include <ATen/ops/empty.h>

#include "kernels/cuda/launch.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"

namespace strata::kernels {
namespace {

GraphRows rows_of(const Adjacency& adjacency) {
  return {.offsets = adjacency.offsets.const_data_ptr<int64_t>(),
          .neighbors = adjacency.neighbors.const_data_ptr<int32_t>(),
          .rows = adjacency.rows(),
          .long_rows = adjacency.long_rows.const_data_ptr<int32_t>(),
          .first_pieces = adjacency.first_pieces.const_data_ptr<int32_t>(),
          .piece_rows = adjacency.piece_rows.const_data_ptr<int32_t>(),
          .piece_begins = adjacency.piece_begins.const_data_ptr<int64_t>(),
          .long_row_count = adjacency.long_rows.size(0),
          .pieces = adjacency.pieces,
          .piece_length = kLongRow};
}

// Makes the elements of each row adjacent.
Tensor as_rows(const Tensor& tensor) { return tensor.stride(1) == 1 ? tensor : tensor.contiguous(); }

const float* floats(const Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr; }

Tensor partials(const Adjacency& adjacency, int64_t width, const Tensor& like, at::ScalarType type = at::kFloat) {
  return at::empty({adjacency.pieces, width}, like.options().dtype(type));
}

// Arguments for a sum. y [rows, width] is contiguous; x [neighbors, width] has the dtype of y and contiguous rows.
NeighborSum sum_of(const GraphRows& rows, const Tensor& x, const Tensor& y, int64_t width, const EdgeFactor& factor,
                   bool mean, const Tensor& workspace) {
  return {.type = cuda_type(NeighborAggregateOp::kName, "x", x),
          .graph = rows,
          .x = x.data_ptr(),
          .y = y.data_ptr(),
          .width = width,
          .x_stride = x.stride(0),
          .factor = factor,
          .mean = mean,
          .partials = workspace.data_ptr<float>()};
}

void sum(std::string_view kernel, const GraphRows& rows, const Adjacency& adjacency, const Tensor& x, const Tensor& y,
         int64_t width, const EdgeFactor& factor, bool mean, const AttentionScores* scores = nullptr) {
  const Tensor workspace = partials(adjacency, width, x);
  const NeighborSum arguments = sum_of(rows, x, y, width, factor, mean, workspace);
  launch(kernel, x, rows.rows, width, [&](cudaStream_t stream) {
    return scores == nullptr ? launch_neighbor_sum(arguments, stream)
                             : launch_attention_sum(arguments, *scores, stream);
  });
}

}  // namespace

NeighborAggregateOp::Output neighbor_aggregate_forward_cuda(const Tensor& x_SF, const NeighborGraph& graph,
                                                            const Tensor& edge_weight_E, Reduction reduction) {
  const Tensor x = as_rows(x_SF), weight = contiguous_fp32(edge_weight_E);
  const int64_t width = x.size(1);
  const GraphRows rows = rows_of(graph.by_target);
  const EdgeFactor factor = {.weight = floats(weight), .edge_of = nullptr, .neighbor_share = nullptr};
  const Tensor y = at::empty({graph.targets, width}, x.options());
  if (reduction != Reduction::max) {
    sum("neighbor_aggregate_forward_cuda", rows, graph.by_target, x, y, width, factor, reduction == Reduction::mean);
    return {y, Tensor()};
  }
  const Tensor largest = at::empty({graph.targets, width}, x.options().dtype(at::kInt));
  const Tensor values = partials(graph.by_target, width, x), edges = partials(graph.by_target, width, x, at::kInt);
  const NeighborMax arguments = {.type = cuda_type(NeighborAggregateOp::kName, "x", x),
                                 .graph = rows,
                                 .x = x.data_ptr(),
                                 .y = y.data_ptr(),
                                 .largest = largest.data_ptr<int32_t>(),
                                 .width = width,
                                 .x_stride = x.stride(0),
                                 .factor = factor,
                                 .partials = values.data_ptr<float>(),
                                 .partial_largest = edges.data_ptr<int32_t>()};
  launch("neighbor_max_forward_cuda", x, graph.targets, width,
         [&](cudaStream_t stream) { return launch_neighbor_max(arguments, stream); });
  return {y, largest};
}

NeighborAggregateOp::Gradient neighbor_aggregate_backward_cuda(const Tensor& grad_y_TF, const Tensor& x_SF,
                                                               const NeighborGraph& graph, const Tensor& edge_weight_E,
                                                               Reduction reduction, const Tensor& largest_TF,
                                                               const NeighborAggregateOp::Wanted& wanted,
                                                               const GradientDestination& into) {
  const Tensor grad_y = as_rows(grad_y_TF), weight = contiguous_fp32(edge_weight_E);
  const int64_t width = grad_y.size(1);
  const bool mean = reduction == Reduction::mean;
  const int32_t* largest = largest_TF.defined() ? largest_TF.const_data_ptr<int32_t>() : nullptr;
  NeighborAggregateOp::Gradient gradient;
  if (wanted.x) {
    const Tensor grad_x = at::empty({graph.sources, width}, grad_y.options());
    Tensor share;
    if (mean) {
      share = at::empty({graph.targets}, grad_y.options().dtype(at::kFloat));
      launch("neighbor_share_cuda", share, graph.targets, 1, [&](cudaStream_t stream) {
        return launch_neighbor_share(graph.by_target.offsets.const_data_ptr<int64_t>(), share.data_ptr<float>(),
                                     graph.targets, stream);
      });
    }
    const EdgeFactor factor = {.weight = floats(weight),
                               .edge_of = graph.edge_by_source.const_data_ptr<int32_t>(),
                               .neighbor_share = floats(share)};
    const Tensor workspace = partials(graph.by_source, width, grad_y);
    const NeighborSum arguments =
        sum_of(rows_of(graph.by_source), grad_y, grad_x, width, factor, /*mean=*/false, workspace);
    launch("neighbor_aggregate_backward_cuda", grad_y, graph.sources, width, [&](cudaStream_t stream) {
      return largest == nullptr ? launch_neighbor_sum(arguments, stream)
                                : launch_neighbor_max_backward(arguments, largest, stream);
    });
    gradient.x = accumulate(grad_x, into);
  }
  if (wanted.edge_weight) {
    const Tensor x = x_SF.contiguous(), rows = grad_y.contiguous();
    const Tensor products = at::empty({graph.edges()}, grad_y.options().dtype(at::kFloat));
    const EdgeProducts arguments = {.type = cuda_type(NeighborAggregateOp::kName, "grad_y", grad_y),
                                    .graph = rows_of(graph.by_target),
                                    .row = rows.data_ptr(),
                                    .neighbor = x.data_ptr(),
                                    .products = products.data_ptr<float>(),
                                    .heads = 1,
                                    .width = width,
                                    .mean = mean,
                                    .largest = largest,
                                    .target_statistics = nullptr,
                                    .source_scores = nullptr,
                                    .negative_slope = 0};
    launch("edge_weight_gradient_cuda", grad_y, graph.edges(), width,
           [&](cudaStream_t stream) { return launch_edge_products(arguments, stream); });
    gradient.edge_weight = products.to(edge_weight_E.scalar_type());
  }
  return gradient;
}

NeighborAttentionOp::Output neighbor_attention_forward_cuda(const Tensor& x_SHF, const Tensor& score_source_SH,
                                                            const Tensor& score_target_TH, const NeighborGraph& graph,
                                                            double negative_slope) {
  const Tensor x = x_SHF.contiguous(), source_scores = contiguous_fp32(score_source_SH),
               target_scores = contiguous_fp32(score_target_TH);
  const int64_t heads = x.size(1), width = x.size(2);
  const GraphRows rows = rows_of(graph.by_target);
  const Tensor y = at::empty({graph.targets, heads, width}, x.options());
  const Tensor logsumexp = at::empty({graph.targets, heads}, source_scores.options());
  const Tensor partials_of_pieces = partials(graph.by_target, heads, source_scores);
  AttentionScores scores = {.row_scores = floats(target_scores),
                            .neighbor_scores = floats(source_scores),
                            .row_logsumexp = nullptr,
                            .neighbor_logsumexp = nullptr,
                            .heads = heads,
                            .negative_slope = static_cast<float>(negative_slope)};
  launch("score_logsumexp_cuda", x, graph.targets, heads, [&](cudaStream_t stream) {
    return launch_score_logsumexp(rows, scores, logsumexp.data_ptr<float>(), partials_of_pieces.data_ptr<float>(),
                                  stream);
  });
  scores.row_logsumexp = floats(logsumexp);
  sum("neighbor_attention_forward_cuda", rows, graph.by_target, x, y, heads * width, {}, /*mean=*/false, &scores);
  return {y, logsumexp};
}

NeighborAttentionOp::Gradient neighbor_attention_backward_cuda(const Tensor& grad_y_THF, const Tensor& x_SHF,
                                                               const Tensor& score_source_SH,
                                                               const Tensor& score_target_TH,
                                                               const NeighborGraph& graph, double negative_slope,
                                                               const Tensor& y_THF, const Tensor& logsumexp_TH) {
  const Tensor grad_y = grad_y_THF.contiguous(), x = x_SHF.contiguous();
  const Tensor source_scores = contiguous_fp32(score_source_SH), target_scores = contiguous_fp32(score_target_TH);
  const int64_t heads = x.size(1), width = x.size(2);
  const auto numbers = source_scores.options();
  const GraphRows by_target = rows_of(graph.by_target), by_source = rows_of(graph.by_source);
  const auto slope = static_cast<float>(negative_slope);

  const Tensor memory = at::empty({graph.targets, heads, int64_t{sizeof(TargetStatistics) / sizeof(float)}}, numbers);
  auto* const statistics = static_cast<TargetStatistics*>(memory.data_ptr());
  const CudaType type = cuda_type(NeighborAttentionOp::kName, "x", x);
  launch("target_statistics_cuda", x, graph.targets * heads, width, [&](cudaStream_t stream) {
    return launch_target_statistics(type, grad_y.data_ptr(), y_THF.data_ptr(), floats(target_scores),
                                    floats(logsumexp_TH), statistics, graph.targets * heads, width, stream);
  });

  // The gradients of the edges' scores, fp32 [edges, heads].
  const Tensor grad_score = at::empty({graph.edges(), heads}, numbers);
  const Tensor grad_x = at::empty(x.sizes(), x.options());
  const Tensor grad_source = at::empty(source_scores.sizes(), numbers),
               grad_target = at::empty(target_scores.sizes(), numbers);
  const Tensor partials_of_pieces = partials(graph.by_source, heads * width, source_scores);
  const Tensor source_partials = partials(graph.by_source, heads, source_scores);
  const AttentionBackward backward = {.type = type,
                                      .graph = by_source,
                                      .edge_of = graph.edge_by_source.const_data_ptr<int32_t>(),
                                      .grad_y = grad_y.data_ptr(),
                                      .x = x.data_ptr(),
                                      .source_scores = floats(source_scores),
                                      .target_statistics = statistics,
                                      .grad_x = grad_x.data_ptr(),
                                      .grad_source = grad_source.data_ptr<float>(),
                                      .grad_score = grad_score.data_ptr<float>(),
                                      .partials = partials_of_pieces.data_ptr<float>(),
                                      .source_partials = source_partials.data_ptr<float>(),
                                      .heads = heads,
                                      .width = width,
                                      .negative_slope = slope};
  if (attention_backward_is_one_pass(backward)) {
    launch("neighbor_attention_backward_cuda", x, graph.sources, heads * width,
           [&](cudaStream_t stream) { return launch_attention_backward(backward, stream); });
  } else {
    const AttentionScores scores = {.row_scores = floats(source_scores),
                                    .neighbor_scores = floats(target_scores),
                                    .row_logsumexp = nullptr,
                                    .neighbor_logsumexp = floats(logsumexp_TH),
                                    .heads = heads,
                                    .negative_slope = slope};
    sum("neighbor_attention_backward_cuda", by_source, graph.by_source, grad_y, grad_x, heads * width, {},
        /*mean=*/false, &scores);
    const EdgeProducts products = {.type = type,
                                   .graph = by_target,
                                   .row = grad_y.data_ptr(),
                                   .neighbor = x.data_ptr(),
                                   .products = grad_score.data_ptr<float>(),
                                   .heads = heads,
                                   .width = width,
                                   .mean = false,
                                   .largest = nullptr,
                                   .target_statistics = statistics,
                                   .source_scores = floats(source_scores),
                                   .negative_slope = slope};
    launch("score_gradient_cuda", x, graph.edges(), heads * width,
           [&](cudaStream_t stream) { return launch_edge_products(products, stream); });
    GraphRows edges_of_source = by_source;  // the neighbors are rows of grad_score
    edges_of_source.neighbors = graph.edge_by_source.const_data_ptr<int32_t>();
    sum("score_source_gradient_cuda", edges_of_source, graph.by_source, grad_score, grad_source, heads, {}, false);
  }
  GraphRows edges_of_target = by_target;
  edges_of_target.neighbors = nullptr;
  sum("score_target_gradient_cuda", edges_of_target, graph.by_target, grad_score, grad_target, heads, {}, false);
  return {grad_x, grad_source.to(score_source_SH.scalar_type()), grad_target.to(score_target_TH.scalar_type())};
}

}  // namespace strata::kernels
