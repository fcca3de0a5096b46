// SPDX-License-Identifier: MIT
#include "kernels/sparsity/sparse_products.h"

namespace strata::kernels {

std::string why_not_sparse(Level level, bool in_bfloat16, int64_t inputs, int64_t outputs, const std::string& module) {
  if (multiplies_sparse(level, in_bfloat16, inputs, outputs)) return "";
  const std::string need = "sparse tensor cores need ";
  if (level != Level::cuda) return need + "level cuda of op linear";
  if (!in_bfloat16) return need + "bfloat16";
  return need + "multiples of " + std::to_string(kSparseMultiple) + ", and " + module + " has " +
         std::to_string(inputs) + " inputs and " + std::to_string(outputs) + " outputs";
}

}  // namespace strata::kernels
