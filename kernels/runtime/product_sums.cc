// SPDX-License-Identifier: MIT
#include "kernels/runtime/product_sums.h"

#include <ATen/Context.h>

namespace strata::kernels {

void accumulate_products_in_fp32() {
  at::Context& context = at::globalContext();
  context.setAllowFP16ReductionCuBLAS(/*allow_reduced_precision=*/false);
  context.setAllowBF16ReductionCuBLAS(/*allow_reduced_precision=*/false);
}

}  // namespace strata::kernels
