// SPDX-License-Identifier: MIT
#include "kernels/sparsity/sparse_products.h"

namespace strata::kernels {

std::string why_not_sparse(Level level, bool in_16_bits, int64_t inputs, int64_t outputs, const std::string& module) {
  if (level != Level::cuda) {
    return "cuSPARSELt is level cuda, and op linear of " + module + " is at level " + std::string(name(level));
  }
  if (!in_16_bits) return "cuSPARSELt multiplies this pattern in 16 bits, and " + module + " computes in float32";
  if (multiplies_sparse(level, in_16_bits, inputs, outputs)) return "";
  return "cuSPARSELt takes multiples of " + std::to_string(kSparseMultiple) + ", and " + module + " has " +
         std::to_string(inputs) + " inputs and " + std::to_string(outputs) + " outputs";
}

}  // namespace strata::kernels
