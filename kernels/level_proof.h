// SPDX-License-Identifier: MIT
// prove_level: proves one level of one op by all cases of the op, without a test: for kernels of a library that is not
// part of the tree. It has the rule of agreement of levels_agree_test, and runs cases in the same ways.
//
// Beyond them it checks what readers and models check for the levels of the tree: types of results, inputs and
// gradients that are not changed, results in memory of their own, a NaN in the input that reaches the output, and
// results that follow when only the values in the memory of the inputs change.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>
#include <vector>

#include "kernels/runtime/level.h"

namespace strata::kernels {

struct LevelProof {
  int cases = 0, calls = 0;
  int compared = 0;  // calls that agreed with the formula, with gradients if the op has any
  // Calls that the level refused by a ValueError whose message begins with "<op>/<level>: ", as require() throws it.
  // They prove nothing, and are no failures.
  int refused = 0;
  int failed = 0;                     // calls
  double share = 0;                   // the largest error as a share of the allowed one
  std::string refusal;                // the first message of a refusal
  std::vector<std::string> failures;  // one for each of the first calls that failed: case, way, tensor, row and error

  bool proved() const { return failed == 0 && compared > 0; }
};

// Failures after the first `most_failures` are counted only.
LevelProof prove_level(std::string_view op, Level level, c10::DeviceType device, c10::ScalarType dtype,
                       size_t most_failures = 5);

}  // namespace strata::kernels
