// SPDX-License-Identifier: MIT
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string result;
  for (const int64_t size : sizes) result += (result.empty() ? "" : "x") + std::to_string(size);
  return result;
}

std::string heads_text(int64_t batch, int64_t positions, int64_t heads, int64_t key_value_heads, int64_t head_width) {
  const std::string shared = key_value_heads == heads ? "" : "/" + std::to_string(key_value_heads);
  return sizes_text({batch, positions}) + " positions, " + std::to_string(heads) + shared + " heads of " +
         std::to_string(head_width);
}

}  // namespace strata::kernels
