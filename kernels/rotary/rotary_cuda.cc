// SPDX-License-Identifier: MIT
// Level cuda of rotary: calls the launcher of rotary.cu with tensors.
#include "kernels/rotary/rotary_cuda.h"

#include "kernels/cuda/launch.h"
#include "kernels/rotary/rotary.h"

namespace strata::kernels {
namespace {

Tensor rotate_in_place(Tensor qkv, const Tensor& cosine, const Tensor& sine, int64_t heads, int64_t key_value_heads,
                       float direction) {
  const Tensor cosines = cosine.contiguous(), sines = sine.contiguous();
  const int64_t rows = qkv.size(0) * qkv.size(1), all_heads = heads + 2 * key_value_heads;
  const RotaryArguments arguments = {.type = cuda_type(RotaryOp::kName, "qkv", qkv),
                                     .qkv = qkv.data_ptr(),
                                     .cosine = cosines.data_ptr<float>(),
                                     .sine = sines.data_ptr<float>(),
                                     .rows = rows,
                                     .positions = qkv.size(1),
                                     .all_heads = static_cast<int>(all_heads),
                                     .rotated_heads = static_cast<int>(heads + key_value_heads),
                                     .head_width = static_cast<int>(qkv.size(2) / all_heads),
                                     .direction = direction};
  launch("rotary_cuda", qkv, rows, qkv.size(2), [&](cudaStream_t stream) { return launch_rotary(arguments, stream); });
  qkv.unsafeGetTensorImpl()->bump_version();  // makes autograd report an error if qkv was saved for another backward
  return qkv;
}

}  // namespace

Tensor rotary_forward_cuda(Tensor qkv, const Tensor& cosine, const Tensor& sine, int64_t heads,
                           int64_t key_value_heads) {
  return rotate_in_place(std::move(qkv), cosine, sine, heads, key_value_heads, 1.0f);
}

Tensor rotary_backward_cuda(Tensor grad_qkv, const Tensor& cosine, const Tensor& sine, int64_t heads,
                            int64_t key_value_heads) {
  return rotate_in_place(std::move(grad_qkv), cosine, sine, heads, key_value_heads, -1.0f);
}

}  // namespace strata::kernels
