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
};

constexpr Tile kTiles[] = {
    {CUBLASLT_MATMUL_TILE_160x128, CUBLASLT_CLUSTER_SHAPE_2x1x1},
    {CUBLASLT_MATMUL_TILE_176x128, CUBLASLT_CLUSTER_SHAPE_2x1x1},
    {CUBLASLT_MATMUL_TILE_128x160, CUBLASLT_CLUSTER_SHAPE_2x1x1},
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
  std::vector<cublasLtMatmulHeuristicResult_t> beyond;
  if (proposed.empty()) return beyond;
  for (const Tile& tile : kTiles) {
    cublasLtMatmulHeuristicResult_t result = proposed.front();
    cublasLtMatmulAlgo_t& algorithm = result.algo;
    if (!set(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, static_cast<uint32_t>(tile.size)) ||
        !set(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, static_cast<uint16_t>(tile.cluster))) {
      continue;
    }
    const bool is_proposed =
        std::any_of(proposed.begin(), proposed.end(),
                    [&](const cublasLtMatmulHeuristicResult_t& other) { return same(other.algo, algorithm); });
    if (is_proposed || check(algorithm, result) != CUBLAS_STATUS_SUCCESS) continue;
    if (result.workspaceSize <= most_workspace) beyond.push_back(result);
  }
  return beyond;
}

}  // namespace strata::kernels
