// SPDX-License-Identifier: MIT
// The launchers of neighbor_aggregate.cu: raw pointers, sizes and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// One side of the graph: see Adjacency.
struct GraphRows {
  const int64_t* offsets;
  const int32_t* neighbors;  // null: the place of the edge itself
  int64_t rows;
  const int32_t *long_rows, *first_pieces, *piece_rows;
  const int64_t* piece_begins;
  int64_t long_row_count, pieces, piece_length;
};

// What the message of an edge is multiplied by: weight[e] * the share of an edge of its neighbor, where they are there.
struct EdgeFactor {
  const float* weight;          // [edges] or null
  const int32_t* edge_of;       // the edge at each place of these rows; null: the place
  const float* neighbor_share;  // [neighbors] or null
};

// exp(leaky_relu(score of the row + score of the neighbor) - logsumexp of the target); everything fp32 [., heads].
struct AttentionScores {
  const float *of_row, *of_neighbor;
  const float *logsumexp_of_row, *logsumexp_of_neighbor;  // one of them is null: that side is the source
  int64_t heads;
  float negative_slope;
};

// y [rows, width] = the sum over the edges of each row of factor * x[neighbor]; x and y have one type. Rows of x begin
// x_stride elements after each other.
struct NeighborSum {
  CudaType type;
  GraphRows graph;
  const void* x;
  void* y;
  int64_t width, x_stride;
  EdgeFactor factor;
  bool mean;        // over the edges of the row
  float* partials;  // workspace: [pieces, width]
};
cudaError_t launch_neighbor_sum(const NeighborSum& arguments, cudaStream_t stream);

// The same with the factors of attention, whose heads share the width.
cudaError_t launch_attention_sum(const NeighborSum& arguments, const AttentionScores& scores, cudaStream_t stream);

// y = the largest message, largest int32 [rows, width] = its edge. Workspaces are of the pieces.
struct NeighborMax {
  CudaType type;
  GraphRows graph;
  const void* x;
  void* y;
  int32_t* largest;
  int64_t width, x_stride;
  EdgeFactor factor;
  float* partials;           // [pieces, width]
  int32_t* partial_largest;  // [pieces, width]
};
cudaError_t launch_neighbor_max(const NeighborMax& arguments, cudaStream_t stream);

// The same sum as above where `largest` [neighbors, width] of the neighbor is the edge; factor.edge_of is there.
cudaError_t launch_neighbor_max_backward(const NeighborSum& arguments, const int32_t* largest, cudaStream_t stream);

// share [rows] = 1 / the number of edges of each row.
cudaError_t launch_neighbor_share(const int64_t* offsets, float* share, int64_t rows, cudaStream_t stream);

// What a backward knows of a target and head.
struct alignas(16) TargetStatistics {
  float score, logsumexp, along_y;  // along_y = grad_y . y
};

// statistics [rows] of grad_y and y [rows, width], given scores and logsumexp [rows].
cudaError_t launch_target_statistics(CudaType type, const void* grad_y, const void* y, const float* score,
                                     const float* logsumexp, TargetStatistics* statistics, int64_t rows, int64_t width,
                                     cudaStream_t stream);

// The gradients of x and of the scores of sources, and those of the edges' scores in front of leaky_relu.
struct AttentionBackward {
  CudaType type;
  GraphRows graph;         // by_source
  const int32_t* edge_of;  // the edge at each place
  const void *grad_y, *x;  // [targets, heads, width], [sources, heads, width]
  const float* of_source;  // scores [sources, heads]
  const TargetStatistics* of_target;
  void* grad_x;
  float *grad_source, *grad_score;       // [sources, heads], [edges, heads]
  float *partials, *partial_of_sources;  // workspaces: [pieces, heads, width], [pieces, heads]
  int64_t heads, width;
  float negative_slope;
};

// A head must be whole vectors and fit into a warp; of others the parts are computed one after another, from the sums
// above and the products below.
bool attention_backward_is_one_pass(const AttentionBackward& arguments);
cudaError_t launch_attention_backward(const AttentionBackward& arguments, cudaStream_t stream);

// products [edges, heads] = row[target, h] . neighbor[source, h] over the edges of by_target; or, where there are
// statistics, the gradients of the edges' scores in front of leaky_relu, `row` being grad_y and `neighbor` x.
struct EdgeProducts {
  CudaType type;
  GraphRows graph;
  const void *row, *neighbor;  // [rows, heads, width], [neighbors, heads, width]
  float* products;
  int64_t heads, width;
  bool mean;                          // divided by the number of edges of the row
  const int32_t* largest;             // [rows, heads, width] or null: only where it is the edge
  const TargetStatistics* of_target;  // [rows, heads] or null
  const float* of_source;             // scores [neighbors, heads]
  float negative_slope;
};
cudaError_t launch_edge_products(const EdgeProducts& arguments, cudaStream_t stream);

// logsumexp [rows, heads] of the scores of each row's edges; partials [pieces, heads].
cudaError_t launch_score_logsumexp(const GraphRows& graph, const AttentionScores& scores, float* logsumexp,
                                   float* partials, cudaStream_t stream);

}  // namespace strata::kernels
