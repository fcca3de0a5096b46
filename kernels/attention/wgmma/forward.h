// SPDX-License-Identifier: MIT
// The forward of attention for any pattern, by the tensor cores and the copy engine of Hopper GPUs (wgmma, TMA).
// B batch, Q queries of a row, T keys of a row, H query heads, K key and value heads, D head width (64 or 128)
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/attention/pattern/tile_words.h"
#include "kernels/cuda/cuda_type.h"

namespace strata::kernels {

struct ForwardTile {
  int64_t queries, keys;

  bool operator==(const ForwardTile&) const = default;
};

struct AttentionForward {
  CudaType type = CudaType::bfloat16;  // or float16
  int64_t width = 64;                  // D
  ForwardTile tile;                    // one of forward_tiles(D)
  int64_t batch = 0, heads = 0, key_value_heads = 0, queries = 0, first_query = 0, keys = 0;
  // Positions that differ by no multiple of this number never see each other. It divides Q = T, and the pattern and the
  // lists are for one residue (pattern/residues.h).
  int64_t residues = 1;
  // First elements, 16-byte aligned. Heads are adjacent in a row, and the rows of a batch follow each other.
  const void *query = nullptr, *key = nullptr, *value = nullptr;
  void* y = nullptr;  // [B, Q, H * D], contiguous
  // Elements from one position to the next, multiples of 8: of queries, and of keys and values.
  int64_t query_distance = 0, key_distance = 0;
  float* logsumexp = nullptr;    // [B, H, Q], natural logarithm
  const float* sinks = nullptr;  // [H], or null
  // Lists of steps (tiles/step_lists.h) of the pattern in which all positions are one document.
  const int32_t *rows = nullptr, *steps = nullptr;
  int64_t tiles = 0;  // of queries
  const int32_t* program = nullptr;
  int64_t instructions = 0;
  TileWords words;                     // of the same program
  const int32_t* documents = nullptr;  // [B, T], ids do not descend in a row; null: the pattern has no documents
  bool documents_apart = false;        // pairs of two documents are never visible
};

// The tiles that there are kernels for: those for patterns with many full tiles, and those for narrow ones.
struct ForwardTiles {
  ForwardTile wide, narrow;
};
constexpr ForwardTiles forward_tiles(int64_t width) {
  return width == 64 ? ForwardTiles{{192, 128}, {192, 64}} : ForwardTiles{{128, 128}, {192, 64}};
}

// Runs on Hopper only. The same call has the same bits. Returns cudaErrorInvalidValue for a type, width or tile that
// has no kernel.
cudaError_t launch_attention_forward(const AttentionForward& call, cudaStream_t stream);

}  // namespace strata::kernels
