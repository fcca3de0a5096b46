// SPDX-License-Identifier: MIT
// The precision in which LibTorch's matrix products of 16-bit types add.
#pragma once

#include <ATen/Context.h>

namespace strata::kernels {

// Makes LibTorch's products of fp16 and bf16 matrices add in fp32 on GPUs, for the whole process. By default cuBLAS may
// split the sums of a product, round each partial sum to 16 bits, and add the rounded sums. Every program that computes
// calls this function at its start.
inline void accumulate_products_in_fp32() {
  at::Context& context = at::globalContext();
  context.setAllowFP16ReductionCuBLAS(/*allow_reduced_precision=*/false);
  context.setAllowBF16ReductionCuBLAS(/*allow_reduced_precision=*/false);
}

}  // namespace strata::kernels
