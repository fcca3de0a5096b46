// SPDX-License-Identifier: MIT
// The table of rms_norm_rotary, its autograd and its checks of arguments, and the levels that have no file of their
// own. Level aten of rms_norm_rotary: norm and rotation are LibTorch's operators on fp32 copies, first of the query
// heads and then of the key heads. Each operator reads and writes these heads again.
// B batch, T positions, H query heads, K key heads, D head width
#include "kernels/rms_norm_rotary/rms_norm_rotary.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <c10/core/ScalarType.h>

#include "kernels/rms_norm_rotary/rms_norm_rotary_formula.h"
#include "kernels/rms_norm_rotary/rms_norm_rotary_shape.h"
#include "kernels/rotary/packed_heads.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/recorded.h"
#include "kernels/runtime/torchscript_runtime.h"

namespace strata::kernels {
namespace {

using Arguments = RmsNormRotaryOp::Arguments;

// Returns heads first, first + 1, ... of a packed tensor as a view [B, T, count, D].
Tensor heads_of(const Tensor& packed, const Arguments& a, int64_t first, int64_t count) {
  return packed.view({packed.size(0), packed.size(1), a.all_heads(), a.head_width()}).narrow(2, first, count);
}

Tensor rstd_of(const Tensor& wide, double eps) {
  return at::mul(wide, wide).mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
}

// Writes x rotated by cosine and sine * direction into `y`, which has the dtype of the result.
void rotate(const Tensor& x, const Arguments& a, int direction, const Tensor& y) {
  const Tensor c = a.cosine.to(x.scalar_type()).unsqueeze(1), s = a.sine.to(x.scalar_type()).unsqueeze(1);
  const int64_t half = a.head_width() / 2;
  const Tensor first = x.narrow(-1, 0, half), second = x.narrow(-1, half, half);
  y.narrow(-1, 0, half).copy_(at::mul(first, c).addcmul_(second, s, -direction));
  y.narrow(-1, half, half).copy_(at::mul(second, c).addcmul_(first, s, direction));
}

Tensor forward_aten(const Arguments& a) {
  const Tensor y = at::empty(a.qkv.sizes(), a.qkv.options());
  const auto norm_and_turn = [&](int64_t first, int64_t count, const Tensor& weight) {
    const Tensor wide = heads_of(a.qkv, a, first, count).to(c10::promoteTypes(a.qkv.scalar_type(), at::kFloat));
    const Tensor normed = at::mul(wide, rstd_of(wide, a.eps)).mul_(weight.to(wide.scalar_type()));
    rotate(normed, a, 1, heads_of(y, a, first, count));
  };
  norm_and_turn(0, a.heads, a.norms.query);
  norm_and_turn(a.heads, a.key_value_heads, a.norms.key);
  heads_of(y, a, a.rotated_heads(), a.key_value_heads).copy_(heads_of(a.qkv, a, a.rotated_heads(), a.key_value_heads));
  return y;
}

// grad_x = rstd * (g - normed * mean(g * normed)) with normed = x * rstd and g = grad * weight, where grad is the
// gradient rotated back
RmsNormRotaryOp::Gradient backward_aten(Tensor grad_y, const Arguments& a, const RmsNormRotaryOp::Destinations& into) {
  const auto differentiate = [&](int64_t first, int64_t count, const Tensor& weight, const GradientDestination& where) {
    const Tensor gradient = heads_of(grad_y, a, first, count);
    const Tensor wide = heads_of(a.qkv, a, first, count).to(c10::promoteTypes(a.qkv.scalar_type(), at::kFloat));
    const Tensor rstd = rstd_of(wide, a.eps);
    const Tensor normed = at::mul(wide, rstd);
    const Tensor back = at::empty(wide.sizes(), wide.options());
    rotate(gradient.to(wide.scalar_type()), a, -1, back);
    const Tensor product = at::mul(back, normed);
    const Tensor grad_weight = product.sum({0, 1, 2});
    const Tensor wide_weight = weight.to(wide.scalar_type());
    const Tensor mean = product.mul_(wide_weight).mean(-1, /*keepdim=*/true);
    gradient.copy_(back.mul_(wide_weight).addcmul_(normed, mean, -1).mul_(rstd));
    return accumulate(grad_weight.to(weight.scalar_type()), where);
  };
  const Tensor query = differentiate(0, a.heads, a.norms.query, into.query);
  return {grad_y, query, differentiate(a.heads, a.key_value_heads, a.norms.key, into.key)};
}

Tensor forward_torchscript(const Arguments& a) {
  static const Formula formula(kFormula, "rms_norm_rotary");
  return formula(a.qkv, a.norms.query, a.norms.key, a.cosine, a.sine, a.heads, a.key_value_heads, a.eps);
}

// The inputs that forward and backward of the packages share.
std::vector<Tensor> package_inputs(const Arguments& a) {
  const int64_t half = a.head_width() / 2;
  return {a.qkv.view({a.qkv.size(0), a.qkv.size(1), a.all_heads(), 2, half}),
          a.norms.query.view({2, half}),
          a.norms.key.view({2, half}),
          a.cosine,
          a.sine,
          host_number(a.heads),
          host_number(a.rotated_heads()),
          host_number(a.eps)};
}

std::vector<AotWidth> package_widths(const Arguments& a) { return {{'a', a.all_heads()}, {'e', a.head_width() / 2}}; }

Tensor forward_aot_inductor(const Arguments& a) {
  static const AotFunction function(RmsNormRotaryOp::kName, kFormula, "rms_norm_rotary_forward", AotWidths::heads);
  return function(a.qkv.scalar_type(), package_widths(a), package_inputs(a))[0].view(a.qkv.sizes());
}

RmsNormRotaryOp::Gradient backward_aot_inductor(Tensor grad_y, const Arguments& a,
                                                const RmsNormRotaryOp::Destinations& into) {
  static const AotFunction function(RmsNormRotaryOp::kName, kFormula, "rms_norm_rotary_backward", AotWidths::heads);
  std::vector<Tensor> inputs = package_inputs(a);
  inputs.insert(inputs.begin(), grad_y.view(inputs[0].sizes()));
  const auto gradients = function(a.qkv.scalar_type(), package_widths(a), std::move(inputs));
  return {gradients[0].view(a.qkv.sizes()), accumulate_wide(gradients[1].flatten(), a.norms.query, into.query),
          accumulate_wide(gradients[2].flatten(), a.norms.key, into.key)};
}

RmsNormRotaryShape shape_of(const Arguments& a) {
  return {a.qkv.size(0), a.qkv.size(1), a.heads, a.key_value_heads, a.head_width()};
}

Arguments contiguous(const Arguments& a) {
  return {a.qkv.contiguous(),
          {a.norms.query.contiguous(), a.norms.key.contiguous()},
          a.cosine.contiguous(),
          a.sine.contiguous(),
          a.heads,
          a.key_value_heads,
          a.eps};
}

// Tensors are passed one by one, because autograd looks for them among the arguments.
struct RmsNormRotaryFunction : Recorded<RmsNormRotaryFunction, RmsNormRotaryOp> {
  static Tensor forward(AutogradContext* context, const Kernel<RmsNormRotaryOp>& kernel, const Tensor& qkv,
                        const Tensor& query_weight, const Tensor& key_weight, const Tensor& cosine, const Tensor& sine,
                        int64_t heads, int64_t key_value_heads, double eps) {
    context->save_for_backward({qkv, query_weight, key_weight, cosine, sine});
    return kernel.forward(contiguous({qkv, {query_weight, key_weight}, cosine, sine, heads, key_value_heads, eps}));
  }
  static variable_list backward(AutogradContext* context, const Kernel<RmsNormRotaryOp>& kernel,
                                const variable_list& gradients, int64_t heads, int64_t key_value_heads, double eps) {
    const variable_list saved = context->get_saved_variables();
    const Arguments a{saved[0], {saved[1], saved[2]}, saved[3], saved[4], heads, key_value_heads, eps};
    const RmsNormRotaryOp::Destinations into = {take_gradient_destination(a.norms.query),
                                                take_gradient_destination(a.norms.key)};
    const auto [grad_qkv, grad_query, grad_key] = kernel.backward(own_gradient(gradients[0]), contiguous(a), into);
    return {grad_qkv, grad_query, grad_key};
  }
};

void check(const Arguments& a, Level level) {
  constexpr auto op = RmsNormRotaryOp::kName;
  require_packed_heads(op, level, a.qkv, a.cosine, a.sine, a.heads, a.key_value_heads);
  require(a.head_width() > 0, op, level, "heads are 0 wide, expected 2 or more");
  for (const auto& [name, weight] :
       {std::pair{"the weight of queries", a.norms.query}, {"the weight of keys", a.norms.key}}) {
    require(weight.dim() == 1 && weight.size(0) == a.head_width(), op, level, name, " is ", weight.sizes(),
            ", expected [", a.head_width(), "]");
    require_same_kind(op, level, "qkv", a.qkv, name, weight);
  }
}

}  // namespace

constinit const KernelTable<RmsNormRotaryOp> RmsNormRotaryOp::kKernels = {
    .aten = {forward_aten, backward_aten},
    .torchscript = {forward_torchscript, nullptr},
    .aot_inductor = {forward_aot_inductor, backward_aot_inductor},
    .triton = {rms_norm_rotary_forward_triton, rms_norm_rotary_backward_triton},
    .cuda = {rms_norm_rotary_forward_cuda, rms_norm_rotary_backward_cuda},
};

Tensor rms_norm_rotary(const Tensor& qkv, const HeadNorms& norms, const Tensor& cosine, const Tensor& sine,
                       int64_t heads, int64_t key_value_heads, double eps, Level level) {
  const Kernel<RmsNormRotaryOp>& kernel = RmsNormRotaryOp::kKernels.at(level, qkv.device());
  const Arguments a{qkv, norms, cosine, sine, heads, key_value_heads, eps};
  check(a, level);
  if (kernel.is_recorded()) {
    return RmsNormRotaryFunction::apply(level, shape_of(a), qkv, norms.query, norms.key, cosine, sine, heads,
                                        key_value_heads, eps);
  }
  const CallScope scope(RmsNormRotaryOp::kName, level, qkv, [&] { return shape_of(a); });
  Arguments given = contiguous(a);
  if (kernel.backward == nullptr) {
    given.norms = {with_gradient_destination(norms.query), with_gradient_destination(norms.key)};
  }
  return kernel.forward(given);
}

}  // namespace strata::kernels
