// SPDX-License-Identifier: MIT
// run_cudnn: executes attention, forward or backward, as a graph of cuDNN.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "kernels/attention/cudnn/cudnn_problem.h"

namespace strata::kernels {

// The tensors of a graph. The first nine have the type of qkv, except for logsumexp, which is fp32.
enum CudnnTensor : int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOutput,
  kLogsumexp,
  kGradOutput,
  kGradQuery,
  kGradKey,
  kGradValue,
  kLengths,  // lengths of documents, int32; then their offsets in each tensor, int64, in elements
  kPackedOffsets,
  kOutputOffsets,
  kLogsumexpOffsets,
  kSinks,  // fp32 [H]
  kGradSinks
};

using CudnnPointers = std::unordered_map<int64_t, void*>;

// Executes the graph of the problem. A graph is built at its first call (half a second) and kept for the process. If
// `like` has no values, the call is traced, and only its workspace is counted. The workspace of a forward is not known
// without a GPU and counts as 1 byte.
void run_cudnn(const CudnnProblem& problem, CudnnPointers& pointers, const Tensor& like);

}  // namespace strata::kernels
