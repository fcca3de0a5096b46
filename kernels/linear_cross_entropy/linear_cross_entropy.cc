// SPDX-License-Identifier: MIT
// The table of linear_cross_entropy, its autograd and its checks of arguments, and the levels that have no file of
// their own. Level aten of linear_cross_entropy: the head and cross_entropy for one chunk of rows at a time, forward
// and backward together, so that the logits of only one chunk are in memory. Level aot_inductor of linear_cross_entropy
// makes the same products, and the loss of a chunk is the compiled package of cross_entropy, or level aten if there is
// a softcap.
// N rows, I input width, V classes
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>

#include <cmath>

#include "kernels/linear_cross_entropy/capped_loss.h"
#include "kernels/linear_cross_entropy/head_in_chunks.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy_formula.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy_shape.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/recorded.h"
#include "kernels/runtime/torchscript_runtime.h"

namespace strata::kernels {
namespace {

void logits_aten(const Tensor& logits, const Tensor& rows, const Tensor& weight) {
  Tensor out = logits;
  at::mm_out(out, rows, weight.t());
}

void hidden_gradient_aten(const Tensor& hidden, const Tensor& gradient, const Tensor& weight) {
  Tensor out = hidden;
  at::mm_out(out, gradient, weight);
}

// ATen's product has one type for operands and result. Each chunk's product is rounded to it; the sum over chunks is
// not.
void weight_gradient_aten(const Tensor& weight_sum, const Tensor& gradient, const Tensor& rows, bool add) {
  Tensor out = weight_sum;
  const bool direct = out.scalar_type() == gradient.scalar_type();
  if (direct && add) {
    at::addmm_out(out, out, gradient.t(), rows);
  } else if (direct) {
    at::mm_out(out, gradient.t(), rows);
  } else if (add) {
    out.add_(at::mm(gradient.t(), rows));
  } else {
    out.copy_(at::mm(gradient.t(), rows));
  }
}

LinearCrossEntropyOp::Output linear_cross_entropy_forward_aten(const Tensor& hidden, const Tensor& weight,
                                                               const Tensor& targets, const Tensor& scale,
                                                               const LinearCrossEntropyOp::Rule& rule,
                                                               bool with_gradient) {
  return head_in_chunks(hidden, weight, targets, scale, rule.loss, with_gradient,
                        {logits_aten, hidden_gradient_aten, weight_gradient_aten},
                        capped_loss(CrossEntropyOp::kKernels.aten.forward, rule.softcap, weight.size(0)),
                        rows_at_a_time(hidden, weight));
}

// The backward of levels aten and aot_inductor, whose forward has computed both gradients.
LinearCrossEntropyOp::Gradient linear_cross_entropy_backward(const Tensor& grad_loss, const Tensor& hidden_gradient,
                                                             const Tensor& weight_gradient, at::ScalarType weight_type,
                                                             const GradientDestination& into) {
  const Tensor factor = grad_loss.to(weight_gradient.scalar_type());
  const Tensor hidden = at::mul(hidden_gradient, factor);  // a 0-dim factor does not change the dtype
  Tensor out = into.into;
  if (!out.defined()) return {hidden, at::mul(weight_gradient, factor).to(weight_type)};
  if (out.scalar_type() != weight_gradient.scalar_type())
    return {hidden, accumulate(at::mul(weight_gradient, factor), into)};
  if (into.add) {
    out.addcmul_(weight_gradient, factor.expand_as(weight_gradient));
  } else {
    at::mul_out(out, weight_gradient, factor);
  }
  return {hidden, {}};
}

LinearCrossEntropyOp::Output linear_cross_entropy_forward_torchscript(const Tensor& hidden, const Tensor& weight,
                                                                      const Tensor& targets, const Tensor& scale,
                                                                      const LinearCrossEntropyOp::Rule& rule, bool) {
  static const Formula formula(kFormula, "linear_cross_entropy");
  return {
      formula(hidden, weight, targets, scale, rule.loss.ignore_index, rule.loss.label_smoothing, rule.softcap), {}, {}};
}

// The matrix products are calls into LibTorch, as in packages of other ops. Capped logits are in fp32, which may have
// no package.
LinearCrossEntropyOp::Output linear_cross_entropy_forward_aot_inductor(const Tensor& hidden, const Tensor& weight,
                                                                       const Tensor& targets, const Tensor& scale,
                                                                       const LinearCrossEntropyOp::Rule& rule,
                                                                       bool with_gradient) {
  const Level level = rule.softcap == 0 ? Level::aot_inductor : Level::aten;
  return head_in_chunks(hidden, weight, targets, scale, rule.loss, with_gradient,
                        {logits_aten, hidden_gradient_aten, weight_gradient_aten},
                        capped_loss(CrossEntropyOp::kKernels.slot(level).forward, rule.softcap, weight.size(0)),
                        rows_at_a_time(hidden, weight));
}

LinearCrossEntropyShape shape_of(const Tensor& hidden, const Tensor& weight) {
  return {.rows = hidden.size(0), .inputs = weight.size(1), .classes = weight.size(0)};
}

struct LinearCrossEntropyFunction : Recorded<LinearCrossEntropyFunction, LinearCrossEntropyOp> {
  static Tensor forward(AutogradContext* context, const Kernel<LinearCrossEntropyOp>& kernel, const Tensor& hidden,
                        const Tensor& weight, const Tensor& targets, const Tensor& scale,
                        const LinearCrossEntropyOp::Rule& rule, bool with_gradient) {
    const auto [loss, hidden_gradient, weight_gradient] =
        kernel.forward(hidden, weight, targets, scale, rule, with_gradient);
    context->save_for_backward({weight, hidden_gradient, weight_gradient});
    return loss;
  }
  static variable_list backward(AutogradContext* context, const Kernel<LinearCrossEntropyOp>& kernel,
                                const variable_list& gradients, const LinearCrossEntropyOp::Rule&, bool) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &weight = saved[0], &hidden_gradient = saved[1], &weight_gradient = saved[2];
    const auto gradient = kernel.backward(gradients[0], hidden_gradient, weight_gradient, weight.scalar_type(),
                                          take_gradient_destination(weight));
    return {gradient.hidden, gradient.weight};
  }
};

void check(const Tensor& hidden, const Tensor& weight, const Tensor& targets, const Tensor& scale,
           double label_smoothing, double softcap, Level level) {
  constexpr auto op = LinearCrossEntropyOp::kName;
  require(hidden.dim() == 2 && weight.dim() == 2 && hidden.size(1) == weight.size(1) && weight.size(0) > 0, op, level,
          "hidden is ", hidden.sizes(), " and weight is ", weight.sizes(), ", expected [N, in] and [V, in]");
  require_same_kind(op, level, "hidden", hidden, "weight", weight);
  CrossEntropyOp::check_targets(op, hidden, targets, scale, label_smoothing, level);
  require(softcap >= 0.0 && std::isfinite(softcap), op, level, "softcap is ", softcap,
          ", expected 0 or a positive number");
}

}  // namespace

constinit const KernelTable<LinearCrossEntropyOp> LinearCrossEntropyOp::kKernels = {
    .aten = {linear_cross_entropy_forward_aten, linear_cross_entropy_backward},
    .torchscript = {linear_cross_entropy_forward_torchscript, nullptr},
    .aot_inductor = {linear_cross_entropy_forward_aot_inductor, linear_cross_entropy_backward, TracedKernel::own},
    .triton = Absent{"its matrix products are calls into a library; only the loss would be a kernel"},
    .cuda = {linear_cross_entropy_forward_cuda, linear_cross_entropy_backward_cuda},
};

Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets, const Tensor& scale,
                            int64_t ignore_index, double label_smoothing, double softcap, Level level) {
  const Kernel<LinearCrossEntropyOp>& kernel = LinearCrossEntropyOp::kKernels.at(level, hidden.device());
  check(hidden, weight, targets, scale, label_smoothing, softcap, level);
  const LinearCrossEntropyOp::Rule rule = {{ignore_index, label_smoothing}, softcap};
  const bool with_gradient = at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  if (kernel.backward != nullptr) {
    return LinearCrossEntropyFunction::apply(level, shape_of(hidden, weight), hidden, weight, targets, scale, rule,
                                             with_gradient);
  }
  const CallScope scope(LinearCrossEntropyOp::kName, level, hidden, [&] { return shape_of(hidden, weight); });
  return kernel.forward(hidden, with_gradient_destination(weight), targets, scale, rule, with_gradient).loss;
}

}  // namespace strata::kernels
