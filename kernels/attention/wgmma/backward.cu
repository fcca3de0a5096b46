// SPDX-License-Identifier: MIT
#include <algorithm>

#include "kernels/attention/tiles/cache_order.h"
#include "kernels/attention/wgmma/backward.h"
#include "kernels/attention/wgmma/backward_key.cuh"
#include "kernels/attention/wgmma/backward_query.cuh"
#include "kernels/attention/wgmma/backward_statistics.cuh"
#include "kernels/attention/wgmma/row_boxes.h"
#include "kernels/cuda/multiprocessors.h"

namespace strata::kernels {
namespace {

constexpr float kLog2E = 1.4426950408889634f;

class Launcher {
 public:
  Launcher(const AttentionGradients& call, cudaStream_t stream) : call_(call), stream_(stream) {
    pattern_ = {call.program,
                call.documents,
                call.instructions,
                call.first_query,
                call.first_query + call.queries / call.step,
                call.keys / call.step};
  }

  cudaError_t run() { return call_.type == CudaType::bfloat16 ? run_with<__nv_bfloat16>() : run_with<__half>(); }

 private:
  template <class T>
  cudaError_t run_with() {
    return call_.width == 64 ? run_kernels<T, 64>() : run_kernels<T, 128>();
  }

  template <class T, int kWidth>
  cudaError_t run_kernels() {
    // Stages, places for items, and whether products overlap: of three choices on an H200, within 4 % of the fastest.
    using Query = std::conditional_t<kWidth == 64, QueryKernel<T, 64, 4, 2, true>, QueryKernel<T, 128, 2, 2, true>>;
    using Key = std::conditional_t<kWidth == 64, KeyKernel<T, 64, 4, 2, true>, KeyKernel<T, 128, 2, 1, false>>;
    cudaError_t status = write_steps();
    if (status == cudaSuccess) {
      const auto blocks = static_cast<unsigned>(call_.statistics_count() / 128);
      attention_statistics_kernel<T, kWidth><<<blocks, kStatisticThreads, 0, stream_>>>(call_, call_.query_parts());
      status = cudaGetLastError();
    }
    if (status == cudaSuccess) status = run_query<Query>();
    if (status == cudaSuccess) status = run_key<Key>();
    return status;
  }

  cudaError_t write_steps() {
    const int query_rows = call_.step_lists() * call_.by_query.tiles,
              key_rows = call_.step_lists() * call_.by_key.tiles;
    query_steps_ = {reinterpret_cast<int4*>(call_.query_step_rows), call_.query_steps};
    key_steps_ = {reinterpret_cast<int4*>(call_.key_step_rows), call_.key_steps};
    const int warps = kStepThreads / 32;
    attention_steps_kernel<<<(query_rows + key_rows + warps - 1) / warps, kStepThreads, 0, stream_>>>(
        call_.by_query, query_steps_, query_rows, call_.by_key, key_steps_, key_rows, pattern_);
    return cudaGetLastError();
  }

  TileWork work(const TileListsOnDevice& lists, const StepLists& steps, int heads, int rows_of_head, int group) const {
    TileWork work;
    work.steps = steps;
    work.tiles = lists.tiles;
    work.has_list_per_sequence = call_.documents != nullptr;
    work.pattern = pattern_;
    work.sequences = call_.sequences();
    work.step = call_.step;
    work.heads = heads;
    work.shared_by = call_.heads / call_.key_value_heads;
    work.query_heads = call_.heads;
    work.query_parts = call_.query_parts();
    const int64_t bytes = int64_t{4} * rows_of_head / call_.step * call_.width;
    work.neighbors_per_tile = static_cast<int>(sequences_in_cache(int64_t{call_.sequences()} * heads, group, bytes));
    work.scale = call_.scale;
    work.power_scale = call_.scale * kLog2E;
    return work;
  }

  cudaError_t describe(CUtensorMap& map, const void* data, int heads, int positions, int64_t distance, int box) const {
    return describe_rows(map, call_.type,
                         {data, int64_t{heads} * call_.width, positions, call_.batch, distance, call_.step}, box);
  }

  template <class K, class Maps, class Kernel>
  cudaError_t launch(Kernel kernel, const Maps& maps, const TileWork& work) {
    // Each device has this attribute.
    cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, K::kShared);
    if (status != cudaSuccess) return status;
    const int blocks = std::min(multiprocessors(), work.items());
    kernel<<<static_cast<unsigned>(blocks), kBackwardThreads, K::kShared, stream_>>>(maps, work, call_.statistics);
    return cudaGetLastError();
  }

  template <class K>
  cudaError_t run_query() {
    const int64_t y_distance = int64_t{call_.heads} * call_.width;
    QueryMaps maps;
    cudaError_t status = describe(maps.query, call_.query, call_.heads, call_.queries, call_.query_distance, 64);
    const auto next = [&](CUtensorMap& map, auto... arguments) {
      if (status == cudaSuccess) status = describe(map, arguments...);
    };
    next(maps.grad_y, call_.grad_y, call_.heads, call_.queries, y_distance, 64);
    next(maps.key, call_.key, call_.key_value_heads, call_.keys, call_.key_distance, 64);
    next(maps.value, call_.value, call_.key_value_heads, call_.keys, call_.key_distance, 64);
    next(maps.grad_query, call_.grad_query, call_.heads, call_.queries, call_.query_distance, 16);
    if (status != cudaSuccess) return status;
    const int group = call_.heads / call_.key_value_heads;
    return launch<K>(attention_query_kernel<K>, maps,
                     work(call_.by_query, query_steps_, call_.heads, call_.keys, group));
  }

  template <class K>
  cudaError_t run_key() {
    const int64_t y_distance = int64_t{call_.heads} * call_.width;
    KeyMaps maps;
    cudaError_t status = describe(maps.query, call_.query, call_.heads, call_.queries, call_.query_distance, 64);
    const auto next = [&](CUtensorMap& map, auto... arguments) {
      if (status == cudaSuccess) status = describe(map, arguments...);
    };
    next(maps.grad_y, call_.grad_y, call_.heads, call_.queries, y_distance, 64);
    next(maps.key, call_.key, call_.key_value_heads, call_.keys, call_.key_distance, 64);
    next(maps.value, call_.value, call_.key_value_heads, call_.keys, call_.key_distance, 64);
    next(maps.grad_key, call_.grad_key, call_.key_value_heads, call_.keys, call_.key_distance, 16);
    next(maps.grad_value, call_.grad_value, call_.key_value_heads, call_.keys, call_.key_distance, 16);
    if (status != cudaSuccess) return status;
    const int group = call_.heads / call_.key_value_heads;
    return launch<K>(attention_key_kernel<K>, maps,
                     work(call_.by_key, key_steps_, call_.key_value_heads, group * call_.queries, 1));
  }

  const AttentionGradients& call_;
  const cudaStream_t stream_;
  PairPattern pattern_;
  StepLists query_steps_, key_steps_;
};

}  // namespace

cudaError_t launch_attention_gradients(const AttentionGradients& call, cudaStream_t stream) {
  if (call.type == CudaType::float32 || (call.width != 64 && call.width != 128)) return cudaErrorInvalidValue;
  return Launcher(call, stream).run();
}

}  // namespace strata::kernels
