// SPDX-License-Identifier: MIT
// neighbor_aggregate and neighbor_attention. A warp handles all edges of a row, or a piece of a long row. kLanes lanes
// hold one vector each of a message, and the groups of kLanes lanes take turns over the edges. Pieces store partial
// results in fp32, which are joined in their order, so there are no atomics.
#include <algorithm>
#include <utility>

#include "kernels/neighbor_aggregate/neighbor_attention.cuh"
#include "kernels/neighbor_aggregate/neighbor_max.cuh"

namespace strata::kernels {
namespace {

// Calls visit(V{}, lanes) with the vector type that can read rows of `width`, and the number of lanes that read a row.
template <class T, class Visit>
cudaError_t visit_lanes(int64_t width, bool aligned, Visit visit) {
  if (aligned && width % kVectorWidth<T> == 0) {
    const int64_t lanes = width / kVectorWidth<T>;
    if (lanes <= 1) return visit(Packed<T>{}, std::integral_constant<int, 1>());
    if (lanes <= 4) return visit(Packed<T>{}, std::integral_constant<int, 4>());
    if (lanes <= 8) return visit(Packed<T>{}, std::integral_constant<int, 8>());
    if (lanes <= 16) return visit(Packed<T>{}, std::integral_constant<int, 16>());
    return visit(Packed<T>{}, std::integral_constant<int, 32>());
  }
  if (width <= 2) return visit(Single<T>{}, std::integral_constant<int, 1>());
  return visit(Single<T>{}, std::integral_constant<int, 32>());
}

dim3 grid(const GraphRows& graph, int64_t width, int64_t tile) {
  return {blocks_of(graph), static_cast<unsigned>(ceil_divide(width, tile))};
}

dim3 join_grid(const GraphRows& graph, int64_t width) {
  return {static_cast<unsigned>(graph.long_row_count), static_cast<unsigned>(ceil_divide<int64_t>(width, kWarp))};
}

template <class ScaleOf>
cudaError_t launch_sum(const NeighborSum& a, bool heads_are_whole, const ScaleOf& scale, cudaStream_t stream) {
  if (a.graph.rows == 0 || a.width == 0) return cudaSuccess;
  return visit_type(a.type, [&]<class T>(T) {
    const bool aligned = are_aligned(a.x, a.y) && a.x_stride % kVectorWidth<T> == 0 && heads_are_whole;
    const cudaError_t status =
        visit_lanes<T>(a.width, aligned, [&]<class V, int kLanes>(V, std::integral_constant<int, kLanes>) {
          sum_kernel<T, V, kLanes><<<grid(a.graph, a.width, kLanes * V::kWidth), kThreads, 0, stream>>>(a, scale);
          return cudaGetLastError();
        });
    if (status != cudaSuccess || a.graph.pieces == 0) return status;
    join_sums_kernel<T><<<join_grid(a.graph, a.width), dim3(kWarp, kJoiners), 0, stream>>>(a);
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t launch_neighbor_sum(const NeighborSum& a, cudaStream_t stream) {
  return launch_sum(a, /*heads_are_whole=*/true, EdgeScale{a.factor}, stream);
}

cudaError_t launch_attention_sum(const NeighborSum& a, const AttentionScores& scores, cudaStream_t stream) {
  const int64_t head_width = a.width / std::max<int64_t>(scores.heads, 1);
  const int64_t vector = a.type == CudaType::float32 ? kVectorWidth<float> : kVectorWidth<__half>;
  return launch_sum(a, head_width % vector == 0, AttentionScale{scores, head_width}, stream);
}

cudaError_t launch_neighbor_max(const NeighborMax& a, cudaStream_t stream) {
  if (a.graph.rows == 0 || a.width == 0) return cudaSuccess;
  return visit_type(a.type, [&]<class T>(T) {
    const bool aligned = are_aligned(a.x, a.y) && a.x_stride % kVectorWidth<T> == 0;
    const cudaError_t status =
        visit_lanes<T>(a.width, aligned, [&]<class V, int kLanes>(V, std::integral_constant<int, kLanes>) {
          max_kernel<T, V, kLanes><<<grid(a.graph, a.width, kLanes * V::kWidth), kThreads, 0, stream>>>(a);
          return cudaGetLastError();
        });
    if (status != cudaSuccess || a.graph.pieces == 0) return status;
    join_largest_kernel<T><<<join_grid(a.graph, a.width), dim3(kWarp, kJoiners), 0, stream>>>(a);
    return cudaGetLastError();
  });
}

cudaError_t launch_neighbor_max_backward(const NeighborSum& a, const int32_t* largest, cudaStream_t stream) {
  return launch_sum(a, /*heads_are_whole=*/true, TakenScale{{a.factor}, largest}, stream);
}

cudaError_t launch_neighbor_share(const int64_t* offsets, float* share, int64_t rows, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  share_kernel<<<static_cast<unsigned>(ceil_divide<int64_t>(rows, kThreads)), kThreads, 0, stream>>>(offsets, share,
                                                                                                     rows);
  return cudaGetLastError();
}

cudaError_t launch_edge_products(const EdgeProducts& a, cudaStream_t stream) {
  if (a.graph.rows == 0 || a.heads == 0) return cudaSuccess;
  return visit_type(a.type, [&]<class T>(T) {
    return visit_lanes<T>(a.width, are_aligned(a.row, a.neighbor),
                          [&]<class V, int kLanes>(V, std::integral_constant<int, kLanes>) {
                            products_kernel<T, V, kLanes><<<grid(a.graph, a.heads, 1), kThreads, 0, stream>>>(a);
                            return cudaGetLastError();
                          });
  });
}

cudaError_t launch_score_logsumexp(const GraphRows& graph, const AttentionScores& scores, float* logsumexp,
                                   float* partials, cudaStream_t stream) {
  if (graph.rows == 0 || scores.heads == 0) return cudaSuccess;
  const auto launch = [&]<int kHeads>(std::integral_constant<int, kHeads>) {
    logsumexp_kernel<kHeads>
        <<<grid(graph, scores.heads, kHeads), kThreads, 0, stream>>>(graph, scores, logsumexp, partials);
  };
  if (scores.heads == 1) {
    launch(std::integral_constant<int, 1>());
  } else if (scores.heads <= 4) {
    launch(std::integral_constant<int, 4>());
  } else {
    launch(std::integral_constant<int, 16>());
  }
  if (graph.pieces > 0) {
    const dim3 blocks(static_cast<unsigned>(graph.long_row_count), static_cast<unsigned>(scores.heads));
    join_logsumexp_kernel<<<blocks, kWarp, 0, stream>>>(graph, scores.heads, logsumexp, partials);
  }
  return cudaGetLastError();
}

cudaError_t launch_target_statistics(CudaType type, const void* grad_y, const void* y, const float* score,
                                     const float* logsumexp, TargetStatistics* statistics, int64_t rows, int64_t width,
                                     cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  return visit_type(type, [&]<class T>(T) {
    return visit_lanes<T>(
        width, are_aligned(grad_y, y), [&]<class V, int kLanes>(V, std::integral_constant<int, kLanes>) {
          const auto blocks = static_cast<unsigned>(ceil_divide<int64_t>(rows * kLanes, kThreads));
          target_statistics_kernel<T, V, kLanes><<<blocks, kThreads, 0, stream>>>(
              static_cast<const T*>(grad_y), static_cast<const T*>(y), score, logsumexp, statistics, rows, width);
          return cudaGetLastError();
        });
  });
}

bool attention_backward_is_one_pass(const AttentionBackward& a) {
  const int64_t vector = a.type == CudaType::float32 ? kVectorWidth<float> : kVectorWidth<__half>;
  return a.width % vector == 0 && a.width <= kWarp * vector && are_aligned(a.grad_y, a.x, a.grad_x);
}

cudaError_t launch_attention_backward(const AttentionBackward& a, cudaStream_t stream) {
  if (a.graph.rows == 0 || a.heads == 0 || a.width == 0) return cudaSuccess;
  return visit_type(a.type, [&]<class T>(T) {
    const int64_t vectors = a.width / kVectorWidth<T>;
    const auto launch = [&]<int kLanes, int kHeadLanes>(std::integer_sequence<int, kLanes, kHeadLanes>) {
      attention_backward_kernel<T, kLanes, kHeadLanes>
          <<<grid(a.graph, a.heads, kLanes / kHeadLanes), kThreads, 0, stream>>>(a);
      return cudaGetLastError();
    };
    const cudaError_t status = vectors > 16  ? launch(std::integer_sequence<int, 32, 32>())
                               : vectors > 8 ? launch(std::integer_sequence<int, 16, 16>())
                               : vectors > 4 ? (a.heads > 1 ? launch(std::integer_sequence<int, 32, 8>())
                                                            : launch(std::integer_sequence<int, 8, 8>()))
                               : a.heads > 2 ? launch(std::integer_sequence<int, 32, 4>())
                                             : launch(std::integer_sequence<int, 8, 4>());
    if (status != cudaSuccess || a.graph.pieces == 0) return status;
    const NeighborSum x_sum = {a.type, a.graph, nullptr, a.grad_x, a.heads * a.width, 0, {}, false, a.partials};
    join_sums_kernel<T><<<join_grid(a.graph, x_sum.width), dim3(kWarp, kJoiners), 0, stream>>>(x_sum);
    const NeighborSum source_sum = {CudaType::float32, a.graph, nullptr, a.grad_source, a.heads, 0, {}, false,
                                    a.source_partials};
    join_sums_kernel<float><<<join_grid(a.graph, a.heads), dim3(kWarp, kJoiners), 0, stream>>>(source_sum);
    return cudaGetLastError();
  });
}

}  // namespace strata::kernels
