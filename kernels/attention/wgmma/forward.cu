// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/attention/tiles/cache_order.h"
#include "kernels/attention/wgmma/forward.cuh"
#include "kernels/attention/wgmma/forward.h"
#include "kernels/attention/wgmma/row_boxes.h"
#include "kernels/cuda/multiprocessors.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMostItems = int64_t{1} << 30;

ForwardWork work_of(const AttentionForward& c) {
  const auto as_int = [](int64_t number) { return static_cast<int>(number); };
  ForwardWork work;
  work.rows = c.rows;
  work.steps = c.steps;
  work.pattern = {c.program,
                  c.documents,
                  as_int(c.instructions),
                  as_int(c.first_query),
                  as_int(c.first_query + c.queries / c.residues),
                  as_int(c.keys / c.residues)};
  work.words = c.words;
  work.tiles = as_int(c.tiles);
  work.batch = as_int(c.batch);
  work.heads = as_int(c.heads);
  work.shared_by = as_int(c.heads / c.key_value_heads);
  work.residues = as_int(c.residues);
  const int64_t key_value_bytes = 2 * c.keys / c.residues * c.width * 2;
  work.neighbors_per_tile =
      as_int(sequences_in_cache(c.batch * c.residues * c.heads, c.heads / c.key_value_heads, key_value_bytes));
  work.has_documents = c.documents != nullptr;
  work.documents_apart = c.documents_apart;
  work.power_scale = static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(c.width)));
  work.sinks = c.sinks;
  work.logsumexp = c.logsumexp;
  work.queries_per_row = as_int(c.queries);
  return work;
}

cudaError_t describe_tensors(ForwardMaps& maps, const AttentionForward& c) {
  const int64_t query_columns = c.heads * c.width, key_columns = c.key_value_heads * c.width;
  const auto rows = [&](const void* data, int64_t columns, int64_t positions, int64_t distance) -> PackedRows {
    return {data, columns, positions, c.batch, distance, c.residues};
  };
  const auto key_tile = static_cast<int>(c.tile.keys);
  cudaError_t status =
      describe_rows(maps.query, c.type, rows(c.query, query_columns, c.queries, c.query_distance), kPart);
  if (status != cudaSuccess) return status;
  status = describe_rows(maps.key, c.type, rows(c.key, key_columns, c.keys, c.key_distance), key_tile);
  if (status != cudaSuccess) return status;
  status = describe_rows(maps.value, c.type, rows(c.value, key_columns, c.keys, c.key_distance), key_tile);
  if (status != cudaSuccess) return status;
  return describe_rows(maps.y, c.type, rows(c.y, query_columns, c.queries, query_columns), /*box_rows=*/16);
}

template <class K>
cudaError_t launch(const AttentionForward& call, cudaStream_t stream) {
  const auto kernel = attention_forward_kernel<K>;
  // Each device has this attribute.
  cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, K::kShared);
  ForwardMaps maps;
  if (status == cudaSuccess) status = describe_tensors(maps, call);
  ForwardWork work = work_of(call);
  if (status == cudaSuccess) status = WorkCounters::instance().find(stream, work.counter.index);
  if (status != cudaSuccess) return status;
  // A block takes no number for its first item, and one more after its last.
  work.counter.takes = static_cast<unsigned>(work.items());
  const int blocks = std::min(work.items(), multiprocessors());
  kernel<<<blocks, K::kThreads, K::kShared, stream>>>(maps, work);
  return cudaGetLastError();
}

// As forward_tiles() has them.
template <class T>
cudaError_t launch_type(const AttentionForward& call, cudaStream_t stream) {
  const bool is_wide = call.tile == forward_tiles(call.width).wide;
  if (!is_wide && !(call.tile == forward_tiles(call.width).narrow)) return cudaErrorInvalidValue;
  if (call.width == 64) {
    return is_wide ? launch<ForwardKernel<T, 64, 3, 128, 3, false>>(call, stream)
                   : launch<ForwardKernel<T, 64, 3, 64, 4, false>>(call, stream);
  }
  return is_wide ? launch<ForwardKernel<T, 128, 2, 128, 2, true>>(call, stream)
                 : launch<ForwardKernel<T, 128, 3, 64, 3, false>>(call, stream);
}

}  // namespace

cudaError_t launch_attention_forward(const AttentionForward& call, cudaStream_t stream) {
  if (call.width != 64 && call.width != 128) return cudaErrorInvalidValue;
  if (call.tiles * call.batch * call.residues * call.heads >= kMostItems) return cudaErrorInvalidValue;
  if (call.type == CudaType::float32) return cudaErrorInvalidValue;
  return call.type == CudaType::bfloat16 ? launch_type<__nv_bfloat16>(call, stream) : launch_type<__half>(call, stream);
}

}  // namespace strata::kernels
