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

// True if sparse tensor cores multiply. With fewer rows the compression of the weight takes longer than it saves.
bool is_sparse_product(const Tensor& x, const Tensor& weight, Level level) {
  return multiplies_sparse(level, x.scalar_type() == at::kBFloat16, weight.size(1), weight.size(0)) && on_gpu(x) &&
         row_count(x) >= kFewestSparseRows;
}

// x weight^T + bias by sparse tensor cores, with the dimensions of x.
Tensor product_of_rows(const Tensor& x, const CompressedWeight& weight, const Tensor& bias = {}) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.outputs;
  return sparse_product(LinearOp::kName, x.reshape({-1, x.size(-1)}), weight, bias).view(shape);
}

Tensor forward_product(const Tensor& x, const Tensor& weight, const Tensor& bias, Level level, PruneMask mask) {
  if (!is_sparse_product(x, weight, level)) return linear_with_made_weight(x, pruned(weight, mask), bias, level);
  const CallScope scope(LinearOp::kName, level, x, [&] { return linear_shape_of(x, weight, bias); });
  const CompressedWeight kept = compressed(LinearOp::kName, pruned(weight, mask));
  return product_of_rows(x, kept, bias);
}

// The op's gradient of its weight does not depend on the weight, so it is the straight-through gradient.
struct SparseLinear : torch::autograd::Function<SparseLinear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& given_bias, Level level, PruneMask mask) {
    const Tensor bias = given_bias.value_or(Tensor());
    context->save_for_backward({x, weight, bias});
    save_level(context, level);
    context->saved_data["mask"] = static_cast<int64_t>(mask);
    return forward_product(x, weight, bias, level, mask);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Level forward_level = saved_level(context);
    const bool has_backward = LinearOp::kKernels.slot(forward_level).backward != nullptr;
    const Level level = has_backward ? forward_level : Level::aten;
    const auto mask = static_cast<PruneMask>(context->saved_data["mask"].toInt());
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &grad_y = gradients[0];
    const CallScope scope(LinearOp::kName, level, kBackward, x, [&] { return linear_shape_of(x, weight, bias); });
    const bool needs_x = context->needs_input_grad(0);
    const bool is_sparse = needs_x && mask == PruneMask::transposable && is_sparse_product(x, weight, level);
    const bool is_dense = needs_x && !is_sparse;
    const LinearOp::GradientDestinations targets = {is_dense, take_gradient_destination(weight),
                                                    take_gradient_destination(bias)};
    LinearOp::Gradient gradient =
        LinearOp::kKernels.slot(level).backward(grad_y, x, is_dense ? pruned(weight, mask) : weight, bias.defined(),
                                                /*pre_activation=*/{}, Activation::none, targets);
    if (is_sparse) {
      const CompressedWeight kept = compressed(LinearOp::kName, pruned(weight, mask), /*transpose=*/true);
      gradient.x = product_of_rows(grad_y, kept);
    }
    return {gradient.x, gradient.weight, gradient.bias, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor sparse_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Level level, PruneMask mask) {
  check_linear(x, weight, bias, level);
  if (!c10::GradMode::is_enabled()) return forward_product(x, weight, bias, level, mask);
  return SparseLinear::apply(x, weight, if_defined(bias), level, mask);
}

}  // namespace strata::kernels
