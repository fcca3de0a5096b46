// SPDX-License-Identifier: MIT
#include "kernels/linear/sparse_linear.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

#include "kernels/linear/linear.h"
#include "kernels/linear/linear_arguments.h"
#include "kernels/linear/made_weight.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/gradient_destination.h"
#include "kernels/runtime/traced.h"
#include "kernels/sparsity/prune.h"
#include "kernels/sparsity/sparse_gemm.h"
#include "kernels/sparsity/sparse_products.h"

namespace strata::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// True if sparse tensor cores multiply. For few rows the time is that of reading the weight, so its compression does
// not pay.
bool is_sparse_product(const Tensor& x, const Tensor& weight, Level level) {
  return multiplies_sparse(level, x.element_size() == 2, weight.size(1), weight.size(0)) && on_gpu(x) &&
         !multiplies_few_rows(level, x, weight);
}

Tensor forward_product(const Tensor& x, const Tensor& weight, const Tensor& bias, Level level) {
  if (!is_sparse_product(x, weight, level)) return linear_with_made_weight(x, pruned(weight), bias, level);
  const CallScope scope(LinearOp::kName, level, x, [&] { return linear_shape_of(x, weight, bias); });
  const CompressedWeight kept = compressed(LinearOp::kName, pruned(weight));
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return sparse_product(LinearOp::kName, x.reshape({-1, x.size(-1)}), kept, bias).view(shape);
}

// The op's gradient of its weight does not depend on the weight, so it is the straight-through gradient.
struct SparseLinear : torch::autograd::Function<SparseLinear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& given_bias, Level level) {
    const Tensor bias = given_bias.value_or(Tensor());
    context->save_for_backward({x, weight, bias});
    save_level(context, level);
    return forward_product(x, weight, bias, level);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Level forward_level = saved_level(context);
    const bool has_backward = LinearOp::kKernels.slot(forward_level).backward != nullptr;
    const Level level = has_backward ? forward_level : Level::aten;
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const CallScope scope(LinearOp::kName, level, kBackward, x, [&] { return linear_shape_of(x, weight, bias); });
    const LinearOp::GradientDestinations targets = {context->needs_input_grad(0), take_gradient_destination(weight),
                                                    take_gradient_destination(bias)};
    const LinearOp::Gradient gradient = LinearOp::kKernels.slot(level).backward(
        gradients[0], x, pruned(weight), bias.defined(), /*pre_activation=*/{}, Activation::none, targets);
    return {gradient.x, gradient.weight, gradient.bias, Tensor()};
  }
};

}  // namespace

Tensor sparse_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Level level) {
  check_linear(x, weight, bias, level);
  if (!c10::GradMode::is_enabled()) return forward_product(x, weight, bias, level);
  return SparseLinear::apply(x, weight, if_defined(bias), level);
}

}  // namespace strata::kernels
