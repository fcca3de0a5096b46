// SPDX-License-Identifier: MIT
#include "tests/kernels/attention/proved_call.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/op_proofs.h"
#include "kernels/proof/evaluation.h"

namespace strata::kernels {

ProvedCall::ProvedCall(const RandomAttention& call, at::ScalarType dtype)
    : call_(call), dtype_(dtype), visible_(visible_pairs(call)) {
  const OpCase on_rounded = rounded(call.op_case, dtype);
  leaves_ = on_rounded.leaves;
  const std::vector<Value> defined = evaluate(on_rounded, Level::torchscript, {.variances_of = dtype});
  const std::vector<Value> in_dtype = evaluate(call.op_case, Level::torchscript, {.dtype = dtype});
  grad_y_ = output_gradients({defined[0].value})[0];
  const std::vector<Tensor> exact = attention_by_loops(call, leaves_, grad_y_, visible_);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_LE(largest(exact[i] - defined.at(i).value), 1e-12 * std::max(1.0, largest(exact[i])))
        << defined[i].name << " of the definition is not that of the loops: " << call.text();
    comparisons_.emplace_back(Expected{exact[i], in_dtype.at(i).value, defined[i].variance},
                              bounds_of(in_dtype[i], tolerance_of(call.op_case.op())));
  }
}

std::string ProvedCall::refusal(const std::vector<Tensor>& values) const {
  for (size_t i = 0; i < values.size(); ++i) {
    const Agreement found = comparisons_.at(i).agreement(values[i]);
    if (!found.agreed()) return (i == 0 ? "y: " : "gradient of leaf " + std::to_string(i - 1) + ": ") + found.words;
  }
  return "";
}

std::vector<Tensor> ProvedCall::values_that_see(const VisiblePairs& visible) const {
  std::vector<Tensor> values = attention_by_loops(call_, leaves_, grad_y_, visible);
  for (Tensor& value : values) value = value.to(dtype_).to(at::kDouble);
  return values;
}

}  // namespace strata::kernels
