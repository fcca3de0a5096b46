// SPDX-License-Identifier: MIT
// Gradients of attention for any pattern, by the tensor cores and the copy engine of Hopper GPUs (wgmma, TMA).
// B batch, Q queries of a row, T keys of a row, H query heads, K key and value heads, D head width (64 or 128)
//
// A row may be several sequences: position i * step + r is number i of sequence r (pattern/residues.h). Lists and
// program are for one sequence.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

// Lists of tiles as attention/tiles/tile_lists.h has them, on the GPU. With documents, all positions are one document
// here.
struct TileListsOnDevice {
  const int32_t* rows = nullptr;     // [tiles, 4]
  const int32_t* indices = nullptr;  // [capacity]
  int tiles = 0, capacity = 0;
};

struct AttentionGradients {
  CudaType type = CudaType::bfloat16;  // or float16
  int width = 64;                      // D
  int batch = 0, heads = 0, key_value_heads = 0, queries = 0, first_query = 0, keys = 0;
  int step = 1;  // sequences of a row; it divides queries and keys, and above 1 there are no documents
  // First elements, 16-byte aligned. Heads are adjacent in a row, and rows of a batch in the tensor.
  const void *query = nullptr, *key = nullptr, *value = nullptr, *y = nullptr, *grad_y = nullptr;
  void *grad_query = nullptr, *grad_key = nullptr, *grad_value = nullptr;
  // Elements from one position to the next: of query and grad_query, and of keys, values and their gradients. It
  // is H * D in y and grad_y.
  int64_t query_distance = 0, key_distance = 0;
  const float* logsumexp = nullptr;  // natural logarithm, by the distances below
  int64_t logsumexp_batch = 0, logsumexp_head = 0, logsumexp_query = 0;
  const float* sinks = nullptr;  // [H], or null
  float* tile_sinks = nullptr;   // [sequences, H, query_parts()]: addends of the gradients of sinks, or null
  // Workspaces: statistics_count() numbers, and step_lists() times as many numbers as rows and indices of the lists
  // have.
  float* statistics = nullptr;
  int32_t *query_step_rows = nullptr, *key_step_rows = nullptr;
  uint32_t *query_steps = nullptr, *key_steps = nullptr;
  TileListsOnDevice by_query;        // tiles of 128 queries and 64 keys
  TileListsOnDevice by_key;          // tiles of 64 queries and 128 keys
  const int32_t* program = nullptr;  // of the pattern
  int instructions = 0;
  const int32_t* documents = nullptr;  // [B, T]
  float scale = 1;                     // of scores

  int sequences() const { return batch * step; }
  // Parts of 64 queries of a sequence, in whole tiles.
  int query_parts() const { return (queries / step + 127) / 128 * 2; }
  // Each row of the batch has documents of its own.
  int step_lists() const { return documents != nullptr ? batch : 1; }
  int64_t statistics_count() const { return int64_t{sequences()} * heads * query_parts() * 128; }
};

// Tiles of the lists. The kernels skip the parts of 64 x 64 pairs of them that have no visible pair.
inline constexpr int kOwnRows = 128, kOtherRows = 64;

cudaError_t launch_attention_gradients(const AttentionGradients& call, cudaStream_t stream);

}  // namespace strata::kernels
