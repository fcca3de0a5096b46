// SPDX-License-Identifier: MIT
#include "tools/replay/tensor_facts.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "base/text/formatted.h"

namespace strata::tools {

TensorFacts facts_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point() || tensor.numel() == 0) return {};
  if (tensor.is_meta() || !tensor.has_storage() || tensor.storage().data() == nullptr) return {};
  const at::RecordFunctionGuard unrecorded(/*is_enabled=*/false);
  const at::NoGradGuard no_gradients;
  const at::Tensor values = tensor.detach();
  return {.nan = at::isnan(values).sum().item<int64_t>(),
          .infinite = at::isinf(values).sum().item<int64_t>(),
          .largest = at::nan_to_num(values, 0, 0, 0).abs().max().item<double>()};
}

TensorFacts operator+(const TensorFacts& one, const TensorFacts& two) {
  return {one.nan + two.nan, one.infinite + two.infinite, std::max(one.largest, two.largest)};
}

std::string to_text(const TensorFacts& facts) {
  const std::string largest = formatted("at most %.3g", facts.largest);
  if (facts.finite()) return "finite, " + largest;
  const std::string nan = facts.nan > 0 ? std::to_string(facts.nan) + " NaN, " : "";
  const std::string infinite = facts.infinite > 0 ? std::to_string(facts.infinite) + " infinite, " : "";
  return nan + infinite + "others " + largest;
}

}  // namespace strata::tools
