// SPDX-License-Identifier: MIT
// STRATA_CANDIDATES: exports kernels of your own from a shared library, so that `tools/strata bench kernels --library`
// proves them and times them beside the five levels. docs/kernels.md has an example.
//
//   #include "kernels/candidate.h"
//   #include "kernels/rms_norm/rms_norm.h"
//   STRATA_CANDIDATES(strata::kernels::candidate<strata::kernels::RmsNormOp>(my_forward, my_backward))
//
// The types Forward and Backward of the op are in its header, with shapes and meaning. Another signature does not
// compile. Arguments that a kernel does not take are refused by require() of kernels/runtime/call.h.
#pragma once

#include <torch/version.h>

#include <iterator>
#include <type_traits>

#include "kernels/candidate_list.h"
#include "kernels/runtime/kernel_table.h"

#ifndef STRATA_DECLARATIONS
#error "STRATA_DECLARATIONS is not defined; compile with the options that tools/strata bench flags prints"
#endif

#define STRATA_TEXT_OF(word) #word
#define STRATA_TEXT(word) STRATA_TEXT_OF(word)

namespace strata::kernels {

// Without a backward, autograd differentiates the LibTorch operators that the forward calls.
template <class Op>
CandidateKernel candidate(typename Op::Forward* forward, typename Op::Backward* backward = nullptr) {
  CandidateKernel candidate{Op::kName.data(), reinterpret_cast<void (*)()>(forward), nullptr};
  if constexpr (std::is_function_v<typename Op::Backward>) {
    candidate.backward = reinterpret_cast<void (*)()>(backward);
  }
  return candidate;
}

}  // namespace strata::kernels

// Stands once in a library, outside of all namespaces, with a candidate() for each op.
#define STRATA_CANDIDATES(...)                                                                                  \
  extern "C" __attribute__((visibility("default"))) const strata::kernels::CandidateList* strata_candidates() { \
    static const strata::kernels::CandidateKernel candidates[] = {__VA_ARGS__};                                 \
    static const strata::kernels::CandidateList list = {strata::kernels::kCandidateFormat, TORCH_VERSION,       \
                                                        STRATA_TEXT(STRATA_DECLARATIONS), candidates,           \
                                                        std::size(candidates)};                                 \
    return &list;                                                                                               \
  }
