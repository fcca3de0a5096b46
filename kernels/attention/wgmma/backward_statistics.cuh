// SPDX-License-Identifier: MIT
// What the kernels of gradients read for each query: the logsumexp as a power of two, and delta, the sum of y * grad_y
// over the head. For each 64 queries of a head there are 64 numbers of each kind. Rows after the last query have an
// infinite logsumexp, so that their probabilities are 0.
#pragma once

#include "kernels/attention/wgmma/backward.h"
#include "kernels/cuda/device_utils.cuh"

namespace strata::kernels {

inline constexpr int kStatisticThreads = 256;

// A block has 64 queries of a head, and a query has kWidth / 8 threads next to each other.
template <class T, int kWidth>
__global__ void __launch_bounds__(kStatisticThreads)
    attention_statistics_kernel(const AttentionGradients call, int parts) {
  constexpr int kLanes = kWidth / 8, kRows = kStatisticThreads / kLanes, kTurns = 64 / kRows;
  const int head = static_cast<int>(blockIdx.x) % call.heads, place_of_part = static_cast<int>(blockIdx.x) / call.heads;
  const int part = place_of_part % parts, sequence = place_of_part / parts;
  const int batch = sequence / call.step, residue = sequence % call.step, queries = call.queries / call.step;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  float* const place = call.statistics + ((static_cast<int64_t>(sequence) * call.heads + head) * parts + part) * 128;
  const float* const logsumexp = call.logsumexp + batch * call.logsumexp_batch + head * call.logsumexp_head;
  const float sink = call.sinks == nullptr ? 0.0f : call.sinks[head];
  Packed<T> y[kTurns], grad[kTurns];
#pragma unroll
  for (int i = 0; i < kTurns; ++i) {
    const int query = part * 64 + i * kRows + static_cast<int>(threadIdx.x) / kLanes;
    y[i].words = grad[i].words = {};
    if (query >= queries) continue;
    const int64_t at =
        ((static_cast<int64_t>(batch) * call.queries + query * call.step + residue) * call.heads + head) * kWidth +
        lane * 8;
    y[i].words = __ldcs(reinterpret_cast<const uint4*>(static_cast<const T*>(call.y) + at));
    grad[i].words = __ldg(reinterpret_cast<const uint4*>(static_cast<const T*>(call.grad_y) + at));
  }
  float sink_gradient = 0;
#pragma unroll
  for (int i = 0; i < kTurns; ++i) {
    const int row = i * kRows + static_cast<int>(threadIdx.x) / kLanes, query = part * 64 + row;
    float delta = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) delta += y[i].at(k) * grad[i].at(k);
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) delta += __shfl_xor_sync(0xffffffff, delta, offset);
    if (lane != 0) continue;
    const bool inside = query < queries;
    const float sum = inside ? logsumexp[(query * call.step + residue) * call.logsumexp_query] : INFINITY;
    place[row] = sum * 1.4426950408889634f;
    place[64 + row] = delta;
    if (call.sinks != nullptr && inside) sink_gradient -= exp2f((sink - sum) * 1.4426950408889634f) * delta;
  }
  if (call.tile_sinks == nullptr) return;
  sink_gradient = block_sum(sink_gradient);
  if (threadIdx.x == 0) {
    call.tile_sinks[(static_cast<int64_t>(sequence) * call.heads + head) * parts + part] = sink_gradient;
  }
}

}  // namespace strata::kernels
