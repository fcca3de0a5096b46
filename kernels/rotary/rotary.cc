// SPDX-License-Identifier: MIT
// The table of rotary, its autograd and its checks of arguments, and the levels that have no file of their own. Level
// aten of rotary: products of the halves of all query and key heads as fp32 copies, which are rounded once and copied
// back in place. Each of these operators reads and writes the heads again.
// B batch, T positions, H query heads, K key heads, D head width
#include "kernels/rotary/rotary.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>

#include "kernels/rotary/packed_heads.h"
#include "kernels/rotary/rotary_formula.h"
#include "kernels/rotary/rotary_shape.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/recorded.h"
#include "kernels/runtime/torchscript_runtime.h"

namespace strata::kernels {
namespace {

// `direction` is 1, or -1 to rotate back. Products are computed in fp32 or wider and rounded once.
Tensor turn_in_place(Tensor qkv, const Tensor& cosine, const Tensor& sine, int64_t heads, int64_t key_value_heads,
                     int direction) {
  const at::ScalarType wide = qkv.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const int64_t all_heads = heads + 2 * key_value_heads;
  const Tensor pairs = qkv.view({qkv.size(0), qkv.size(1), all_heads, 2, qkv.size(2) / all_heads / 2})
                           .narrow(2, 0, heads + key_value_heads);
  const Tensor first = pairs.select(3, 0), second = pairs.select(3, 1);
  const Tensor x1 = first.to(wide), x2 = second.to(wide);
  const Tensor c = cosine.to(wide).unsqueeze(1), s = sine.to(wide).unsqueeze(1);
  const Tensor y1 = at::mul(x1, c).addcmul_(x2, s, -direction);
  second.copy_(at::mul(x2, c).addcmul_(x1, s, direction));
  first.copy_(y1);
  return qkv;
}

Tensor rotary_forward_aten(Tensor qkv, const Tensor& cosine, const Tensor& sine, int64_t heads,
                           int64_t key_value_heads) {
  return turn_in_place(std::move(qkv), cosine, sine, heads, key_value_heads, 1);
}

Tensor rotary_backward_aten(Tensor grad_qkv, const Tensor& cosine, const Tensor& sine, int64_t heads,
                            int64_t key_value_heads) {
  return turn_in_place(std::move(grad_qkv), cosine, sine, heads, key_value_heads, -1);
}

Tensor rotary_forward_torchscript(Tensor qkv, const Tensor& cosine, const Tensor& sine, int64_t heads,
                                  int64_t key_value_heads) {
  static const Formula formula(kFormula, "rotary");
  return formula(qkv, cosine, sine, heads, key_value_heads);
}

Tensor rotary_forward_aot_inductor(Tensor qkv, const Tensor& cosine, const Tensor& sine, int64_t heads,
                                   int64_t key_value_heads) {
  static const AotFunction function(RotaryOp::kName, kFormula, "rotary_by_head", AotWidths::heads);
  if (qkv.is_meta()) return at::empty(qkv.sizes(), qkv.options());  // what the package returns
  const int64_t all_heads = heads + 2 * key_value_heads, half = cosine.size(1);
  const Tensor by_head = qkv.view({qkv.size(0), qkv.size(1), all_heads, 2, half});
  return function(qkv.scalar_type(), {{'a', all_heads}, {'e', half}},
                  {by_head, cosine, sine, host_number(heads + key_value_heads)})[0]
      .view(qkv.sizes());
}

Tensor rotary_backward_aot_inductor(Tensor grad_qkv, const Tensor& cosine, const Tensor& sine, int64_t heads,
                                    int64_t key_value_heads) {
  return rotary_forward_aot_inductor(std::move(grad_qkv), cosine, at::neg(sine), heads, key_value_heads);
}

RotaryShape shape_of(const Tensor& qkv, int64_t heads, int64_t key_value_heads) {
  return {.batch = qkv.size(0),
          .positions = qkv.size(1),
          .heads = heads,
          .key_value_heads = key_value_heads,
          .head_width = qkv.size(2) / (heads + 2 * key_value_heads)};
}

struct RotaryFunction : Recorded<RotaryFunction, RotaryOp> {
  static Tensor forward(AutogradContext* context, const Kernel<RotaryOp>& kernel, const Tensor& qkv,
                        const Tensor& cosine, const Tensor& sine, int64_t heads, int64_t key_value_heads) {
    context->save_for_backward({cosine, sine});
    // With detach() the result is a new tensor for autograd. The version counter is still shared, so autograd reports
    // an error if qkv was saved for another backward.
    return kernel.forward(qkv.detach().contiguous(), cosine, sine, heads, key_value_heads);
  }
  static variable_list backward(AutogradContext* context, const Kernel<RotaryOp>& kernel,
                                const variable_list& gradients, int64_t heads, int64_t key_value_heads) {
    const variable_list saved = context->get_saved_variables();
    return {kernel.backward(own_gradient(gradients[0]), saved[0], saved[1], heads, key_value_heads)};
  }
};

}  // namespace

constinit const KernelTable<RotaryOp> RotaryOp::kKernels = {
    .aten = {rotary_forward_aten, rotary_backward_aten},
    .torchscript = {rotary_forward_torchscript, nullptr},
    .aot_inductor = {rotary_forward_aot_inductor, rotary_backward_aot_inductor, TracedKernel::own},
    .triton = {rotary_forward_triton, rotary_backward_triton},
    .cuda = {rotary_forward_cuda, rotary_backward_cuda},
};

Tensor rotary(Tensor qkv, const Tensor& cosine, const Tensor& sine, int64_t heads, int64_t key_value_heads,
              Level level) {
  const Kernel<RotaryOp>& kernel = RotaryOp::kKernels.at(level, qkv.device());
  require_packed_heads(RotaryOp::kName, level, qkv, cosine, sine, heads, key_value_heads);
  if (kernel.is_recorded()) {
    return RotaryFunction::apply(level, shape_of(qkv, heads, key_value_heads), qkv, cosine, sine, heads,
                                 key_value_heads);
  }
  const CallScope scope(RotaryOp::kName, level, qkv, [&] { return shape_of(qkv, heads, key_value_heads); });
  return kernel.forward(qkv.contiguous(), cosine, sine, heads, key_value_heads);
}

}  // namespace strata::kernels
