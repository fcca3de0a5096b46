// SPDX-License-Identifier: MIT
#include "tools/weights/rounded_weight.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>

#include "base/errors.h"
#include "base/text/formatted.h"
#include "base/text/printable.h"

namespace strata::tools {

at::Tensor rounded_weight(const std::string& name, const at::Tensor& values, at::ScalarType type) {
  if (type == values.scalar_type()) return values;
  const at::Tensor rounded = values.to(type);
  const at::Tensor infinite = at::isinf(rounded);
  if (!infinite.any().item<bool>()) return rounded;
  const at::Tensor overflowed = infinite.logical_and(at::isfinite(values));
  const auto count = overflowed.sum().item<int64_t>();
  if (count == 0) return rounded;
  const bool half = type == at::kHalf;
  throw Error(ExitCode::numerics,
              printable(name) + formatted(": %lld of %lld numbers are too large for %s, up to %.9g; expected at most "
                                          "%s; choose a type with a wider range",
                                          static_cast<long long>(count), static_cast<long long>(values.numel()),
                                          half ? "float16" : "bfloat16",
                                          values.masked_select(overflowed).abs().max().item<double>(),
                                          half ? "65504" : "3.39e38"));
}

}  // namespace strata::tools
