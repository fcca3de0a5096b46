// SPDX-License-Identifier: MIT
// Proves a level at a workload's full size, against the formula in fp64. The formula is computed in parts on the same
// device.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "kernels/proof/agreement.h"
#include "kernels/proof/workload.h"

namespace strata::kernels {

// fp64 elements of the largest tensor of a part: 1 GiB. The formula holds about ten such tensors at a time, beside its
// inputs and results.
inline constexpr int64_t kPartElements = int64_t{1} << 27;

// Returns the difference of each result and gradient to the formula; of the worst part, if it is computed so.
std::vector<Deviation> deviations(const Workload& workload, Level level, int64_t part_elements = kPartElements);

struct Verdict {
  bool agreed = false;
  double share = 0;   // the largest error as a share of the allowed one; at most 1 if the level agrees
  std::string words;  // what did not agree, or the message of the refusal; empty if it agreed
};

Verdict verdict(const Workload& workload, Level level);

// Returns the message of an exception; for errors of LibTorch, without the stack. TorchScript throws other types too.
std::string sentence_of(const std::exception& error);

}  // namespace strata::kernels
