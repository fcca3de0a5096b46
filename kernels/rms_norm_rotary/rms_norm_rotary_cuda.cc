// SPDX-License-Identifier: MIT
// Level cuda of rms_norm_rotary: calls the launchers of rms_norm_rotary.cu with tensors.
#include "kernels/rms_norm_rotary/rms_norm_rotary_cuda.h"

#include <ATen/ops/empty.h>

#include "kernels/cuda/gradient_output.h"
#include "kernels/cuda/is_on_hopper.h"
#include "kernels/cuda/launch.h"
#include "kernels/rms_norm_rotary/rms_norm_rotary.h"

namespace strata::kernels {
namespace {

RmsNormRotaryInputs inputs(const RmsNormRotaryOp::Arguments& a) {
  return {.type = cuda_type(RmsNormRotaryOp::kName, "qkv", a.qkv),
          .qkv = a.qkv.data_ptr(),
          .query_weight = a.norms.query.data_ptr(),
          .key_weight = a.norms.key.data_ptr(),
          .cosine = a.cosine.data_ptr<float>(),
          .sine = a.sine.data_ptr<float>(),
          .rows = a.rows(),
          .positions = a.qkv.size(1),
          .heads = static_cast<int>(a.heads),
          .key_value_heads = static_cast<int>(a.key_value_heads),
          .head_width = static_cast<int>(a.head_width()),
          .eps = static_cast<float>(a.eps)};
}

}  // namespace

Tensor rms_norm_rotary_forward_cuda(const RmsNormRotaryOp::Arguments& a) {
  const Tensor y = at::empty(a.qkv.sizes(), a.qkv.options());
  const auto launcher =
      is_on_hopper(y) ? hopper::launch_rms_norm_rotary_forward : portable::launch_rms_norm_rotary_forward;
  launch("rms_norm_rotary_forward_cuda", y, a.rows(), y.size(2),
         [&](cudaStream_t stream) { return launcher(inputs(a), y.data_ptr(), stream); });
  return y;
}

RmsNormRotaryOp::Gradient rms_norm_rotary_backward_cuda(Tensor grad_y, const RmsNormRotaryOp::Arguments& a,
                                                        const RmsNormRotaryOp::Destinations& into) {
  constexpr auto op = RmsNormRotaryOp::kName;
  const GradientOutput query(op, a.norms.query.sizes(), a.norms.query.options(), into.query);
  const GradientOutput key(op, a.norms.key.sizes(), a.norms.key.options(), into.key);
  const RmsNormRotaryBlocks blocks = rms_norm_rotary_blocks(a.rows(), a.heads, a.key_value_heads);
  const Tensor partials = at::empty({blocks.queries + blocks.keys, a.head_width()}, grad_y.options().dtype(at::kFloat));
  const auto launcher =
      is_on_hopper(grad_y) ? hopper::launch_rms_norm_rotary_backward : portable::launch_rms_norm_rotary_backward;
  launch("rms_norm_rotary_backward_cuda", grad_y, a.rows(), grad_y.size(2), [&](cudaStream_t stream) {
    return launcher({.in = inputs(a),
                     .gradient = grad_y.data_ptr(),
                     .partials = partials.data_ptr<float>(),
                     .blocks = blocks,
                     .query = query.target(),
                     .key = key.target()},
                    stream);
  });
  return {grad_y, query.accumulate(), key.accumulate()};
}

}  // namespace strata::kernels
