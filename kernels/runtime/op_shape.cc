// SPDX-License-Identifier: MIT
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

std::string sizes_text(std::initializer_list<int64_t> sizes) {
  std::string result;
  for (const int64_t size : sizes) result += (result.empty() ? "" : "x") + std::to_string(size);
  return result;
}

}  // namespace strata::kernels
