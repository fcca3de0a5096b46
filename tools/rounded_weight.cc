// SPDX-License-Identifier: MIT
#include "tools/rounded_weight.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>

#include <cstdio>

#include "base/errors.h"
#include "base/printable.h"

namespace strata::tools {

at::Tensor rounded_weight(const std::string& name, const at::Tensor& values, at::ScalarType type) {
  if (type == values.scalar_type()) return values;
  const at::Tensor rounded = values.to(type);
  const at::Tensor overflowed = at::isinf(rounded).logical_and_(at::isfinite(values));
  if (!overflowed.any().item<bool>()) return rounded;
  const bool half = type == at::kHalf;
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, "%lld numbers too large for %s, at most %.9g; expected at most %s",
                static_cast<long long>(overflowed.sum().item<int64_t>()), half ? "float16" : "bfloat16",
                values.masked_select(overflowed).abs().max().item<double>(), half ? "65504" : "3.38e38");
  throw Error(ExitCode::numerics,
              printable(name) + " has " + numbers + "; choose " + (half ? "bfloat16 or float32" : "float32"));
}

}  // namespace strata::tools
