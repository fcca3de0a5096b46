// SPDX-License-Identifier: MIT
#include "kernels/cuda/gemm_tiles.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace strata::kernels {
namespace {

struct Tile {
  cublasLtMatmulTile_t size;  // columns x rows of out, because cuBLASLt computes the transpose
  cublasLtClusterShape_t cluster;
  uint32_t custom_option;  // option of cuBLASLt, which does not say what it means
};

// They were found by a search over tiles, clusters and custom options that cublasLtMatmulAlgoCheck accepts, on an H200
// with cuBLASLt 13.1 (2026-11-28). The fastest were timed again, in turn with those that are proposed. These save most
// in the layers of GPT-2 XL with 8 sequences and of GPT-2 124M with 64, beside the best that is proposed.
constexpr Tile kTiles[] = {
    {CUBLASLT_MATMUL_TILE_160x128, CUBLASLT_CLUSTER_SHAPE_1x2x1, 2},  // XL: 3 to 5 % of gradients of inputs
    {CUBLASLT_MATMUL_TILE_160x128, CUBLASLT_CLUSTER_SHAPE_2x1x1, 4},  // XL: 2 % of attention's last product
    {CUBLASLT_MATMUL_TILE_128x160, CUBLASLT_CLUSTER_SHAPE_1x2x1, 3},  // XL: 4 % of mlp's gradient of the input
    {CUBLASLT_MATMUL_TILE_200x128, CUBLASLT_CLUSTER_SHAPE_1x2x1, 4},  // XL: 2 % of mlp's last product
    {CUBLASLT_MATMUL_TILE_320x128, CUBLASLT_CLUSTER_SHAPE_1x1x1, 4},  // XL: 2 to 3 % of mlp's gradients of weights
    {CUBLASLT_MATMUL_TILE_128x216, CUBLASLT_CLUSTER_SHAPE_2x1x1, 5},  // 124M: 8 % of qkv's gradient of the weight
    {CUBLASLT_MATMUL_TILE_192x112, CUBLASLT_CLUSTER_SHAPE_1x2x1, 3},  // 124M: 4 % of mlp's last product
    {CUBLASLT_MATMUL_TILE_128x176, CUBLASLT_CLUSTER_SHAPE_1x2x1, 3},  // 124M: 3 % of qkv's gradient of the input
};

template <class Value>
bool set(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t name, Value value) {
  return cublasLtMatmulAlgoConfigSetAttribute(&algorithm, name, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
}

bool same(const cublasLtMatmulAlgo_t& a, const cublasLtMatmulAlgo_t& b) {
  return std::memcmp(a.data, b.data, sizeof a.data) == 0;
}

}  // namespace

std::vector<cublasLtMatmulHeuristicResult_t> algorithms_of_tiles(
    const std::vector<cublasLtMatmulHeuristicResult_t>& proposed, size_t most_workspace, const GemmCheck& check) {
  std::vector<cublasLtMatmulHeuristicResult_t> found;
  if (proposed.empty()) return found;
  for (const Tile& tile : kTiles) {
    cublasLtMatmulHeuristicResult_t result = proposed.front();
    cublasLtMatmulAlgo_t& algorithm = result.algo;
    if (!set(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, static_cast<uint32_t>(tile.size)) ||
        !set(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, static_cast<uint16_t>(tile.cluster)) ||
        !set(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, tile.custom_option)) {
      continue;
    }
    const bool is_proposed =
        std::any_of(proposed.begin(), proposed.end(),
                    [&](const cublasLtMatmulHeuristicResult_t& other) { return same(other.algo, algorithm); });
    if (is_proposed || check(algorithm, result) != CUBLAS_STATUS_SUCCESS) continue;
    if (result.workspaceSize <= most_workspace) found.push_back(result);
  }
  return found;
}

}  // namespace strata::kernels
