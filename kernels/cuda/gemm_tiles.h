// SPDX-License-Identifier: MIT
// Tiles of cuBLASLt that its heuristic does not propose for a product, though some are faster: tiles of 160 x 128 fill
// 97 % of the waves of an 8192 x 1600 result, and tiles of 128 x 256 fill 76 %.
// The tiles are a list, and not found for each product: there are up to 9,000 algorithms for one, and a search of all
// takes a minute for a model. A plan that keeps an algorithm for each product would need that minute for each
// configuration and GPU, and would not be valid for another version of cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <functional>
#include <vector>

namespace strata::kernels {

// Asks cuBLASLt whether this GPU runs the algorithm for a product, as cublasLtMatmulAlgoCheck does. If it returns
// CUBLAS_STATUS_SUCCESS, it has written result.workspaceSize.
using GemmCheck =
    std::function<cublasStatus_t(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulHeuristicResult_t& result)>;

// Returns copies of the first algorithm of `proposed` with the tiles of the table in gemm_tiles.cc, in its order.
// `proposed` is what the heuristic proposes. Left out are copies that `check` refuses, those that need more than
// `most_workspace` bytes, and those that are in `proposed`. So there are none on a GPU without such tiles, or if
// `proposed` is empty.
std::vector<cublasLtMatmulHeuristicResult_t> algorithms_of_tiles(
    const std::vector<cublasLtMatmulHeuristicResult_t>& proposed, size_t most_workspace, const GemmCheck& check);

}  // namespace strata::kernels
