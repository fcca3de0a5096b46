// SPDX-License-Identifier: MIT
// The verdict of the rule of agreement on the values of a case, however they were computed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/proof/agreement.h"
#include "kernels/proof/evaluation.h"
#include "kernels/proof/op_case.h"

namespace strata::kernels {

// Returns the text of kernels/<file>.py.
const std::string& definition_in(std::string_view file);

// Significant bits of an intermediate result that is kept in 16 bits. In fp32 it is fp16, the finer of the two types.
int bits_of_16(at::ScalarType dtype);

// A case as its definition computes it: in a dtype, and exactly, in fp64.
struct CaseVerdict {
  CaseVerdict(const OpCase& op_case, at::ScalarType dtype);

  // Returns the first sentence that refuses a value, or nothing. The values are fp64, in the order of `in_dtype`.
  std::string refusal(const OpCase& op_case, const std::vector<Tensor>& values) const;

  std::vector<Value> in_dtype;
  std::vector<Comparison> comparisons;
};

// Returns the values of a case that is computed in fp32, whose results are rounded once to the types of `like`.
std::vector<Tensor> rounded_once(const OpCase& op_case, at::ScalarType dtype, const std::vector<Value>& like);

}  // namespace strata::kernels
