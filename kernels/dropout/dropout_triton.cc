// SPDX-License-Identifier: MIT
// Level triton of dropout: calls the kernel of dropout_triton.py with tensors.
#include <ATen/ops/empty.h>

#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_triton_kernels.h"

namespace strata::kernels {

Tensor dropout_forward_triton(const Tensor& x, const DropoutOp::MaskSeed& mask) {
  const Tensor y = at::empty(x.sizes(), x.options());
  if (x.numel() == 0) return y;
  const int64_t width = x.size(-1);
  launch_dropout_triton(x.contiguous(), y, mask.key, mask.site, mask.first_row,
                        static_cast<int64_t>(mask.probability * 4294967296.0), 1.0 / (1.0 - mask.probability), width,
                        x.numel() / width);
  return y;
}

}  // namespace strata::kernels
