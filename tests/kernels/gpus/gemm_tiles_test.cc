// SPDX-License-Identifier: MIT
// The list of tiles beyond those that cuBLASLt proposes. A function of the test answers for the GPU, so none is needed.
#include "kernels/cuda/gemm_tiles.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace strata::kernels {
namespace {

using Algorithm = cublasLtMatmulHeuristicResult_t;

constexpr size_t kMost = 1 << 20;  // bytes of workspace

template <class Value>
void set(Algorithm& algorithm, cublasLtMatmulAlgoConfigAttributes_t name, Value value) {
  ASSERT_EQ(cublasLtMatmulAlgoConfigSetAttribute(&algorithm.algo, name, &value, sizeof value), CUBLAS_STATUS_SUCCESS);
}

template <class Value>
Value get(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t name) {
  Value value{};
  size_t written = 0;
  EXPECT_EQ(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, name, &value, sizeof value, &written),
            CUBLAS_STATUS_SUCCESS);
  return value;
}

uint32_t tile_of(const cublasLtMatmulAlgo_t& algorithm) {
  return get<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID);
}

uint16_t cluster_of(const cublasLtMatmulAlgo_t& algorithm) {
  return get<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
}

constexpr uint32_t kProposedOption = 7;  // no tile of the list has this custom option

// What the heuristic could propose.
Algorithm proposed(uint32_t tile, int32_t parts_of_k) {
  Algorithm algorithm{};
  set(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, tile);
  set(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID, static_cast<uint32_t>(CUBLASLT_MATMUL_STAGES_128xAUTO));
  set(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, parts_of_k);
  set(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, kProposedOption);
  set(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  algorithm.workspaceSize = 12345;
  algorithm.state = CUBLAS_STATUS_SUCCESS;
  return algorithm;
}

cublasStatus_t takes(const cublasLtMatmulAlgo_t& /*algorithm*/, Algorithm& result) {
  result.workspaceSize = 0;
  return CUBLAS_STATUS_SUCCESS;
}

std::vector<Algorithm> proposals() {
  return {proposed(CUBLASLT_MATMUL_TILE_128x256, 3), proposed(CUBLASLT_MATMUL_TILE_64x256, 2)};
}

TEST(GemmTiles, AreFewAndDiffer) {
  const std::vector<Algorithm> found = algorithms_of_tiles(proposals(), kMost, takes);
  std::set<std::pair<uint32_t, uint16_t>> kinds;
  for (const Algorithm& algorithm : found) {
    kinds.emplace(tile_of(algorithm.algo), cluster_of(algorithm.algo));
    EXPECT_GT(tile_of(algorithm.algo), CUBLASLT_MATMUL_TILE_UNDEFINED);
    EXPECT_LT(tile_of(algorithm.algo), CUBLASLT_MATMUL_TILE_END);
    EXPECT_NE(get<uint32_t>(algorithm.algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION), kProposedOption);
  }
  EXPECT_EQ(kinds.size(), found.size());
  EXPECT_GE(found.size(), 1U);
  EXPECT_LE(found.size(), 8U) << "each costs time in the first step";
}

TEST(GemmTiles, KeepWhatElseTheFirstProposalHas) {
  for (const Algorithm& algorithm : algorithms_of_tiles(proposals(), kMost, takes)) {
    EXPECT_EQ(get<uint32_t>(algorithm.algo, CUBLASLT_ALGO_CONFIG_STAGES_ID), CUBLASLT_MATMUL_STAGES_128xAUTO);
    EXPECT_EQ(get<int32_t>(algorithm.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM), 3);
    EXPECT_EQ(get<uint32_t>(algorithm.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
              CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    EXPECT_EQ(algorithm.workspaceSize, 0) << "the check says the bytes, not the proposal";
    EXPECT_EQ(algorithm.state, CUBLAS_STATUS_SUCCESS);
  }
}

TEST(GemmTiles, ThatTheGpuLacksAreLeftOut) {
  const std::vector<Algorithm> all = algorithms_of_tiles(proposals(), kMost, takes);
  for (const cublasStatus_t refusal :
       {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_ARCH_MISMATCH, CUBLAS_STATUS_INVALID_VALUE}) {
    for (const Algorithm& lacked : all) {
      const auto lacks_one = [&](const cublasLtMatmulAlgo_t& algorithm, Algorithm& result) {
        const bool is_lacked =
            tile_of(algorithm) == tile_of(lacked.algo) && cluster_of(algorithm) == cluster_of(lacked.algo);
        return is_lacked ? refusal : takes(algorithm, result);
      };
      const std::vector<Algorithm> found = algorithms_of_tiles(proposals(), kMost, lacks_one);
      EXPECT_EQ(found.size(), all.size() - 1);
      for (const Algorithm& algorithm : found) {
        EXPECT_NE(std::pair(tile_of(algorithm.algo), cluster_of(algorithm.algo)),
                  std::pair(tile_of(lacked.algo), cluster_of(lacked.algo)));
      }
    }
    const auto lacks_all = [&](const cublasLtMatmulAlgo_t&, Algorithm&) { return refusal; };
    EXPECT_TRUE(algorithms_of_tiles(proposals(), kMost, lacks_all).empty());
  }
}

TEST(GemmTiles, HaveNoMoreWorkspaceThanAllowed) {
  const size_t count = algorithms_of_tiles(proposals(), kMost, takes).size();
  for (const size_t bytes : {kMost, kMost + 1}) {
    const auto needs = [&](const cublasLtMatmulAlgo_t&, Algorithm& result) {
      result.workspaceSize = bytes;
      return CUBLAS_STATUS_SUCCESS;
    };
    EXPECT_EQ(algorithms_of_tiles(proposals(), kMost, needs).size(), bytes > kMost ? 0 : count);
  }
}

TEST(GemmTiles, ThatAreProposedAreNotTimedTwice) {
  std::vector<Algorithm> list = proposals();
  const std::vector<Algorithm> all = algorithms_of_tiles(list, kMost, takes);
  list.push_back(all.back());
  list.back().workspaceSize = kMost;  // the same algorithm, whatever else is known of it
  EXPECT_EQ(algorithms_of_tiles(list, kMost, takes).size(), all.size() - 1);
  list.insert(list.end(), all.begin(), all.end());
  EXPECT_TRUE(algorithms_of_tiles(list, kMost, takes).empty());
}

TEST(GemmTiles, NeedAProposal) {
  const auto fails = [](const cublasLtMatmulAlgo_t&, Algorithm&) {
    ADD_FAILURE() << "there is no algorithm whose tile could be another";
    return CUBLAS_STATUS_SUCCESS;
  };
  EXPECT_TRUE(algorithms_of_tiles({}, kMost, fails).empty());
}

}  // namespace
}  // namespace strata::kernels
