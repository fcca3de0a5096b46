// SPDX-License-Identifier: MIT
// The launchers of neighbor_aggregate.cu. They take raw pointers, sizes and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// One side of the graph; see Adjacency.
struct GraphRows {
  const int64_t* offsets;
  const int32_t* neighbors;  // null: the index of the edge itself
  int64_t rows;
  const int32_t *long_rows, *first_pieces, *piece_rows;
  const int64_t* piece_begins;
  int64_t long_row_count, pieces, piece_length;
};

// The factor of an edge's message: weight[e] * neighbor_share[neighbor], each 1 if it is null.
struct EdgeFactor {
  const float* weight;          // [edges] or null
  const int32_t* edge_of;       // the edge at each place of these rows; null: the place itself
  const float* neighbor_share;  // [neighbors] or null
};

// The factor exp(leaky_relu(score of the row + score of the neighbor) - logsumexp of the target). Tensors are fp32 [.,
// heads].
struct AttentionScores {
  const float *row_scores, *neighbor_scores;
  const float *row_logsumexp, *neighbor_logsumexp;  // null for the side that is the source
  int64_t heads;
  float negative_slope;
};

// y [rows, width] = the sum of factor * x[neighbor] over the edges of each row. x and y have one type. Rows of x are
// x_stride elements apart.
struct NeighborSum {
  CudaType type;
  GraphRows graph;
  const void* x;
  void* y;
  int64_t width, x_stride;
  EdgeFactor factor;
  bool mean;        // divides by the number of edges of the row
  float* partials;  // workspace: [pieces, width]
};
cudaError_t launch_neighbor_sum(const NeighborSum& arguments, cudaStream_t stream);

// Computes this sum with the factors of attention. The width counts all heads.
cudaError_t launch_attention_sum(const NeighborSum& arguments, const AttentionScores& scores, cudaStream_t stream);

// y = the maximum message, largest int32 [rows, width] = its edge. Workspaces have one row per piece.
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

// Computes launch_neighbor_sum, but for each feature only over edges that equal `largest` [neighbors, width] of their
// neighbor. Needs factor.edge_of.
cudaError_t launch_neighbor_max_backward(const NeighborSum& arguments, const int32_t* largest, cudaStream_t stream);

// share [rows] = 1 / the number of edges of each row.
cudaError_t launch_neighbor_share(const int64_t* offsets, float* share, int64_t rows, cudaStream_t stream);

// Numbers of a target and head that the backward needs.
struct alignas(16) TargetStatistics {
  float score, logsumexp, along_y;  // along_y = grad_y . y
};

// Computes statistics [rows] from grad_y and y [rows, width], score and logsumexp [rows].
cudaError_t launch_target_statistics(CudaType type, const void* grad_y, const void* y, const float* score,
                                     const float* logsumexp, TargetStatistics* statistics, int64_t rows, int64_t width,
                                     cudaStream_t stream);

// Computes the gradients of x, of the scores of sources, and of the edges' scores before leaky_relu.
struct AttentionBackward {
  CudaType type;
  GraphRows graph;             // by_source
  const int32_t* edge_of;      // the edge at each place
  const void *grad_y, *x;      // [targets, heads, width], [sources, heads, width]
  const float* source_scores;  // [sources, heads]
  const TargetStatistics* target_statistics;
  void* grad_x;
  float *grad_source, *grad_score;    // [sources, heads], [edges, heads]
  float *partials, *source_partials;  // workspaces: [pieces, heads, width], [pieces, heads]
  int64_t heads, width;
  float negative_slope;
};

// True if a head is a multiple of a 16-byte vector, fits into a warp and is aligned. If false, the gradients are
// computed one after another by launch_attention_sum and launch_edge_products.
bool attention_backward_is_one_pass(const AttentionBackward& arguments);
cudaError_t launch_attention_backward(const AttentionBackward& arguments, cudaStream_t stream);

// products [edges, heads] = row[target, h] . neighbor[source, h] over the edges of by_target. If target_statistics is
// given, the gradients of the edges' scores before leaky_relu instead, with grad_y as `row` and x as `neighbor`.
struct EdgeProducts {
  CudaType type;
  GraphRows graph;
  const void *row, *neighbor;  // [rows, heads, width], [neighbors, heads, width]
  float* products;
  int64_t heads, width;
  bool mean;               // divides by the number of edges of the row
  const int32_t* largest;  // [rows, heads, width] or null: skips features whose maximum is another edge
  const TargetStatistics* target_statistics;  // [rows, heads] or null
  const float* source_scores;                 // [neighbors, heads]
  float negative_slope;
};
cudaError_t launch_edge_products(const EdgeProducts& arguments, cudaStream_t stream);

// Computes logsumexp [rows, heads] over the scores of each row's edges. partials [pieces, heads] is a workspace.
cudaError_t launch_score_logsumexp(const GraphRows& graph, const AttentionScores& scores, float* logsumexp,
                                   float* partials, cudaStream_t stream);

}  // namespace strata::kernels
