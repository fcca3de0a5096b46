// SPDX-License-Identifier: MIT
// What runs a call of attention at level cuda: cuDNN, or the kernels of attention/wgmma for Hopper GPUs.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/attention/pattern/pattern.h"
#include "kernels/attention/score_terms.h"

namespace strata::kernels {

// A call in bfloat16 or float16.
struct CudaCall {
  const Pattern& pattern;
  ScoreTerms terms = {};
  int64_t head_width = 0;
  bool is_part = false;  // the queries are a part of each row
};

enum class CudaEngine { cudnn, wgmma };

// Return "" if the engine takes the call in both directions, otherwise what it expects, as in "expected no alibi".
// Heads are of a width that level cuda takes.
std::string why_not_cudnn(const CudaCall& call);
std::string why_not_wgmma(const CudaCall& call);

// The engine that computes forward and backward of a call. Some engine must take the call.
CudaEngine cuda_engine(const CudaCall& call, bool on_hopper);

}  // namespace strata::kernels
