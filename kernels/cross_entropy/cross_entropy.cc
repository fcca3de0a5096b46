// SPDX-License-Identifier: MIT
// The table of cross_entropy, its autograd and its checks of arguments, and the levels that have no file of their own.
// Level aten of cross_entropy: log_softmax of an fp32 copy of the logits, or on CPUs exp and sums of it, and then the
// gradient of the logits in the same memory. The forward computes this gradient, so the backward only scales it.
// N rows, V classes
#include "kernels/cross_entropy/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/graph_task.h>

#include "kernels/cross_entropy/cross_entropy_formula.h"
#include "kernels/cross_entropy/cross_entropy_shape.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/recorded.h"
#include "kernels/runtime/torchscript_runtime.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

// Where the targets of the rows are, and which rows do not count.
struct Targets {
  Targets(const Tensor& targets, int64_t ignore_index)
      : ignored_N(targets.eq(ignore_index)), column_N1(targets.masked_fill(ignored_N, 0).unsqueeze(1)) {}

  // Returns the factor of each row's gradient.
  Tensor row_scale(const Tensor& scale, at::ScalarType dtype) const {
    return scale.to(dtype).expand_as(ignored_N).masked_fill(ignored_N, 0).unsqueeze(1);
  }

  Tensor ignored_N, column_N1;
};

// d loss / d logits = scale * (p - (1 - a) one_hot(target) - a / V), and 0 for ignored rows. Overwrites log_p.
Tensor logit_gradient(Tensor log_p, const Targets& targets, const Tensor& scale, double label_smoothing) {
  const Tensor row_scale_N1 = targets.row_scale(scale, log_p.scalar_type());
  Tensor gradient = log_p.exp_();
  if (label_smoothing != 0.0) gradient.sub_(label_smoothing / static_cast<double>(gradient.size(1)));
  gradient.scatter_add_(1, targets.column_N1, at::full_like(row_scale_N1, label_smoothing - 1.0));
  return gradient.mul_(row_scale_N1);
}

// The loss and the gradient with log_softmax. On GPUs many threads have sums of few numbers each.
CrossEntropyOp::Output with_log_softmax(const Tensor& wide, const Targets& targets, const Tensor& scale,
                                        double smoothing, bool with_gradient) {
  const Tensor log_p = at::_log_softmax(wide, 1, /*half_to_float=*/false);
  Tensor row_loss_N = log_p.gather(1, targets.column_N1).squeeze(1).mul_(smoothing - 1.0);
  if (smoothing != 0.0) row_loss_N.sub_(log_p.mean(1), smoothing);
  const Tensor loss = at::sum(row_loss_N.masked_fill_(targets.ignored_N, 0)).mul_(scale);
  if (!with_gradient) return {loss, {}};
  return {loss, logit_gradient(log_p, targets, scale, smoothing)};
}

// The same on CPUs. log_softmax there adds the exponentials of a row into 8 or 16 long sums. A number below 2^-24
// changes nothing in a sum of 1 or more: 2^20 numbers exp(-17) were lost beside a 1, though they are 4 % of the sum.
// at::sum adds short sums, so it is used. It does not get the exponential of the target, because the loss of a likely
// target is the sum of the other classes, whose digits would be lost in fp32. Numbers that exist once per row are in
// fp64. Overwrites `wide` if `may_overwrite` is true.
CrossEntropyOp::Output with_sums_of_rows(const Tensor& wide, bool may_overwrite, const Targets& targets,
                                         const Tensor& scale, double smoothing, bool with_gradient) {
  const Tensor largest_N1 = wide.amax(1, /*keepdim=*/true);
  Tensor numbers = may_overwrite ? Tensor(wide).sub_(largest_N1) : at::sub(wide, largest_N1);
  Tensor row_loss_N1 = numbers.gather(1, targets.column_N1).to(at::kDouble).mul_(smoothing - 1.0);
  if (smoothing != 0.0) row_loss_N1.sub_(numbers.mean(1, /*keepdim=*/true), smoothing);
  numbers.exp_();
  const Tensor target_N1 = numbers.gather(1, targets.column_N1).to(at::kDouble);
  numbers.scatter_(1, targets.column_N1, 0);
  const Tensor rest_N1 = numbers.sum(1, /*keepdim=*/true).to(at::kDouble), sum_N1 = target_N1 + rest_N1;
  row_loss_N1.add_(sum_N1.log()).masked_fill_(targets.ignored_N.unsqueeze(1), 0);
  const Tensor loss = at::sum(row_loss_N1).mul_(scale).to(wide.scalar_type());
  if (!with_gradient) return {loss, {}};

  // p - a / V = (number - a / V * sum) / sum, and for the target p - (1 - a) = (a * number - (1 - a) * rest) / sum.
  const double class_share = smoothing / static_cast<double>(wide.size(1));
  const Tensor factor_N1 = targets.row_scale(scale, at::kDouble).div_(sum_N1);
  const Tensor target_gradient_N1 =
      at::mul(target_N1, smoothing).sub_(rest_N1, 1.0 - smoothing).sub_(sum_N1, class_share).mul_(factor_N1);
  if (smoothing != 0.0) numbers.sub_(sum_N1.to(wide.scalar_type()), class_share);
  numbers.mul_(factor_N1.to(wide.scalar_type()));
  return {loss, numbers.scatter_(1, targets.column_N1, target_gradient_N1.to(wide.scalar_type()))};
}

CrossEntropyOp::Output cross_entropy_forward_aten(const Tensor& logits, const Tensor& targets, const Tensor& scale,
                                                  const CrossEntropyOp::Rule& rule, bool with_gradient) {
  const Tensor wide = logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
  const Targets row_targets(targets, rule.ignore_index);
  auto [loss, gradient] = on_cpu(logits)
                              ? with_sums_of_rows(wide, /*may_overwrite=*/!wide.is_same(logits), row_targets, scale,
                                                  rule.label_smoothing, with_gradient)
                              : with_log_softmax(wide, row_targets, scale, rule.label_smoothing, with_gradient);
  if (with_gradient) gradient = gradient.to(logits.scalar_type());
  return {loss, gradient};
}

// item() is cheap on a CPU. A traced gradient of the loss is taken for 1, as it is in training.
bool is_known_one(const Tensor& grad_loss) {
  return on_cpu(grad_loss) && (grad_loss.is_meta() || grad_loss.item<double>() == 1.0);
}

Tensor cross_entropy_backward_aten(const Tensor& grad_loss, const Tensor& logit_gradient, bool in_place) {
  if (!in_place) return at::mul(logit_gradient, grad_loss);
  return is_known_one(grad_loss) ? logit_gradient : logit_gradient.mul_(grad_loss);
}

CrossEntropyOp::Output cross_entropy_forward_torchscript(const Tensor& logits, const Tensor& targets,
                                                         const Tensor& scale, const CrossEntropyOp::Rule& rule, bool) {
  static const Formula formula(kFormula, "cross_entropy");
  return {formula(logits, targets, scale, rule.ignore_index, rule.label_smoothing), {}};
}

CrossEntropyOp::Output cross_entropy_forward_aot_inductor(const Tensor& logits, const Tensor& targets,
                                                          const Tensor& scale, const CrossEntropyOp::Rule& rule,
                                                          bool with_gradient) {
  static const AotFunction loss(CrossEntropyOp::kName, kFormula, "cross_entropy_loss");
  static const AotFunction gradient(CrossEntropyOp::kName, kFormula, "cross_entropy_gradient");
  const auto outputs = (with_gradient ? gradient : loss)(
      logits.scalar_type(), {{'v', logits.size(1)}},
      {logits, targets, scale, host_number(rule.ignore_index), host_number(rule.label_smoothing)});
  return {outputs[0], with_gradient ? outputs[1] : Tensor()};
}

// A package returns a new tensor. In place, the package scales this number of elements at a time, so that the tensor is
// small.
constexpr int64_t kScaledAtOnce = int64_t{1} << 24;

Tensor cross_entropy_backward_aot_inductor(const Tensor& grad_loss, const Tensor& logit_gradient, bool in_place) {
  static const AotFunction function(CrossEntropyOp::kName, kFormula, "cross_entropy_backward", AotWidths::lanes);
  const auto scaled = [&](const Tensor& gradient) {
    const Tensor lanes = as_lanes(gradient);
    return function(gradient.scalar_type(), {{'c', lanes.size(1)}}, {grad_loss, lanes})[0].view(gradient.sizes());
  };
  if (!in_place) return scaled(logit_gradient);
  if (is_known_one(grad_loss)) return logit_gradient;
  for (Tensor part : logit_gradient.view(-1).split(kScaledAtOnce)) part.copy_(scaled(part));
  return logit_gradient;
}

CrossEntropyShape shape_of(const Tensor& logits) { return {.rows = logits.size(0), .classes = logits.size(1)}; }

struct CrossEntropyFunction : Recorded<CrossEntropyFunction, CrossEntropyOp> {
  static Tensor forward(AutogradContext* context, const Kernel<CrossEntropyOp>& kernel, const Tensor& logits,
                        const Tensor& targets, const Tensor& scale, const CrossEntropyOp::Rule& rule,
                        bool with_gradient) {
    const auto [loss, gradient] = kernel.forward(logits, targets, scale, rule, with_gradient);
    context->save_for_backward({gradient});
    return loss;
  }
  static variable_list backward(AutogradContext* context, const Kernel<CrossEntropyOp>& kernel,
                                const variable_list& gradients, const CrossEntropyOp::Rule&, bool) {
    // Unless the graph is kept for another backward, autograd releases what was saved right after this call.
    const bool in_place = !torch::autograd::get_current_graph_task_keep_graph();
    return {kernel.backward(gradients[0], context->get_saved_variables()[0], in_place)};
  }
};

}  // namespace

constinit const KernelTable<CrossEntropyOp> CrossEntropyOp::kKernels = {
    .aten = {cross_entropy_forward_aten, cross_entropy_backward_aten},
    .torchscript = {cross_entropy_forward_torchscript, nullptr},
    .aot_inductor = {cross_entropy_forward_aot_inductor, cross_entropy_backward_aot_inductor},
    .triton = {cross_entropy_forward_triton, cross_entropy_backward_triton},
    .cuda = {cross_entropy_forward_cuda, cross_entropy_backward_cuda},
};

void CrossEntropyOp::check_targets(std::string_view op, const Tensor& rows, const Tensor& targets, const Tensor& scale,
                                   double label_smoothing, Level level) {
  require(targets.scalar_type() == at::kLong && targets.dim() == 1 && targets.size(0) == rows.size(0) &&
              targets.device() == rows.device(),
          op, level, "targets are ", targets.scalar_type(), " ", targets.sizes(), " on ", targets.device(),
          ", expected Long [", rows.size(0), "] on ", rows.device());
  require(scale.scalar_type() == at::kFloat && scale.dim() == 0 && scale.device() == rows.device(), op, level,
          "scale is ", scale.scalar_type(), " ", scale.sizes(), " on ", scale.device(), ", expected Float [] on ",
          rows.device());
  require(label_smoothing >= 0.0 && label_smoothing < 1.0, op, level, "label_smoothing is ", label_smoothing,
          ", expected 0 <= a < 1");
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& scale, int64_t ignore_index,
                     double label_smoothing, Level level) {
  const Kernel<CrossEntropyOp>& kernel = CrossEntropyOp::kKernels.at(level, logits.device());
  require(logits.is_floating_point() && logits.dim() == 2 && logits.size(1) > 0, CrossEntropyOp::kName, level,
          "logits are ", logits.scalar_type(), " ", logits.sizes(), ", expected floating point [N, V]");
  CrossEntropyOp::check_targets(CrossEntropyOp::kName, logits, targets, scale, label_smoothing, level);
  const CrossEntropyOp::Rule rule = {ignore_index, label_smoothing};
  const bool with_gradient = at::GradMode::is_enabled() && logits.requires_grad();
  if (kernel.backward != nullptr) {
    return CrossEntropyFunction::apply(level, shape_of(logits), logits, targets, scale, rule, with_gradient);
  }
  const CallScope scope(CrossEntropyOp::kName, level, logits, [&] { return shape_of(logits); });
  return kernel.forward(logits, targets, scale, rule, with_gradient).loss;
}

}  // namespace strata::kernels
