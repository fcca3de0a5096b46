// SPDX-License-Identifier: MIT
// Level cuda of dropout: calls the launcher of dropout.cu with tensors.
#include "kernels/dropout/dropout_cuda.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/dropout/dropout.h"

namespace strata::kernels {

Tensor dropout_forward_cuda(const Tensor& x, const DropoutOp::MaskSeed& mask) {
  const Tensor input = x.contiguous(), y = at::empty(x.sizes(), x.options());
  const int64_t columns = x.size(-1), rows = x.numel() / std::max<int64_t>(columns, 1);
  const DropoutArguments arguments = {.type = cuda_type(DropoutOp::kName, "x", x),
                                      .y = y.data_ptr(),
                                      .x = input.data_ptr(),
                                      .key = mask.key.data_ptr<int64_t>(),
                                      .rows = rows,
                                      .columns = columns,
                                      .site = mask.site,
                                      .first_row = mask.first_row,
                                      .probability = mask.probability};
  launch("dropout_cuda", x, rows, columns, [&](cudaStream_t stream) { return launch_dropout(arguments, stream); });
  return y;
}

}  // namespace strata::kernels
