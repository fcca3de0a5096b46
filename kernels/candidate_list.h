// SPDX-License-Identifier: MIT
// CandidateList: what a library with kernels of somebody's own hands over, and the stamp that says which LibTorch and
// which headers it was compiled with. Plain pointers only, so that a library with another stamp can be refused.
#pragma once

#include <cstddef>

namespace strata::kernels {

// A kernel of one op. Its functions have the types Forward and Backward of the op.
struct CandidateKernel {
  const char* op;  // Op::kName
  void (*forward)();
  void (*backward)();  // null if autograd differentiates the forward
};

// The version of these two structs.
inline constexpr int kCandidateFormat = 1;

struct CandidateList {
  int format;                // kCandidateFormat
  const char* torch;         // TORCH_VERSION
  const char* declarations;  // hash of the declarations of all ops, from tools/bench/kernels/candidate_flags.py
  const CandidateKernel* candidates;
  size_t count;
};

// The function that a library exports.
using Candidates = const CandidateList*();
inline constexpr char kCandidates[] = "strata_candidates";

}  // namespace strata::kernels
