// SPDX-License-Identifier: MIT
// ProductFormats as whole numbers, which a torch::autograd::Function saves for its backward.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/quantize/number_format.h"

namespace strata::kernels {

inline std::vector<int64_t> numbers_of(const ProductFormats& formats) {
  const auto& [values, gradients] = formats;
  return {static_cast<int64_t>(values.element), static_cast<int64_t>(values.scaling),
          static_cast<int64_t>(gradients.element), static_cast<int64_t>(gradients.scaling)};
}

inline ProductFormats formats_of(const std::vector<int64_t>& numbers) {
  return {{static_cast<Element>(numbers.at(0)), static_cast<Scaling>(numbers.at(1))},
          {static_cast<Element>(numbers.at(2)), static_cast<Scaling>(numbers.at(3))}};
}

}  // namespace strata::kernels
