// SPDX-License-Identifier: MIT
// Which tensors of an op that LibTorch reports hold values that the op has computed.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace strata::trainer {

class ComputedOutputs {
 public:
  // Returns the outputs with values, in their order. Some may be undefined. Empty for views, because another thread may
  // be receiving what they show, and for memory whose values are not set yet.
  std::vector<at::Tensor> of(const at::RecordFunction& function);

 private:
  bool computes(const at::RecordFunction& function);

  std::unordered_map<std::string, bool> computes_;  // by the full name of an op
};

}  // namespace strata::trainer
