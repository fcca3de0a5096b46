// SPDX-License-Identifier: MIT
// Proves a level at a workload's full size: against the formula in fp64, computed part by part on the same device.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "kernels/proof/agreement.h"
#include "kernels/proof/workload.h"

namespace strata::kernels {

// How far one result or gradient is from the formula.
struct Deviation {
  std::string name;  // "result 0", "gradient of leaf 1"
  at::ScalarType dtype;
  double error, scale;  // largest |value - formula|, largest |formula|
  int64_t terms;        // of a sum over all rows; otherwise 1
};

// fp64 numbers of a part's largest tensor: 1 GiB, of which formulas hold about ten at a time.
inline constexpr int64_t kPartElements = int64_t{1} << 27;

std::vector<Deviation> deviations(const Workload& workload, Level level, int64_t part_elements = kPartElements);

struct Verdict {
  bool agreed = false;
  double share = 0;   // the worst error as a share of what is allowed; at most 1 where the level agrees
  std::string words;  // what did not agree, or how the level refused; empty where it agreed
};

// `aten` is deviations(workload, Level::aten), made once for all levels; it may be empty for Level::aten itself.
Verdict verdict(const Workload& workload, Level level, const std::vector<Deviation>& aten);

// Of an error of LibTorch the sentence without the stack; TorchScript throws others too.
std::string sentence_of(const std::exception& error);

}  // namespace strata::kernels
