// SPDX-License-Identifier: MIT
#include "kernels/cross_entropy/softcap.h"

#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

namespace strata::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// 16 MiB of a part in fp32, so that on a GPU the passes over it stay in the L2 cache.
constexpr int64_t kElements = int64_t{1} << 22;

// In fp32 or wider, of one dimension: such a factor makes a product with 16 bits as wide, in one pass.
Tensor wide_number(const Tensor& x, double value) {
  return at::full({1}, value, x.options().dtype(c10::promoteTypes(x.scalar_type(), at::kFloat)));
}

// Calls `compute` with the first row and the number of rows of each part of x, and with tanh(x / softcap) of the part.
template <class Compute>
void each_part(const Tensor& x, const Tensor& softcap, const Compute& compute) {
  const int64_t rows = std::max<int64_t>(kElements / std::max<int64_t>(x.size(1), 1), 1);
  Tensor memory = at::empty({std::min(rows, x.size(0)), x.size(1)}, softcap.options());
  for (int64_t first = 0; first < x.size(0); first += rows) {
    const int64_t count = std::min(rows, x.size(0) - first);
    Tensor tanh = memory.narrow(0, 0, count);
    at::div_out(tanh, x.narrow(0, first, count), softcap);
    compute(first, count, tanh.tanh_());
  }
}

Tensor rows_of(const Tensor& logits) { return logits.view({-1, logits.size(-1)}); }

struct CappedLogits : torch::autograd::Function<CappedLogits> {
  static Tensor forward(AutogradContext* context, const Tensor& logits, double softcap) {
    const Tensor capped = at::empty_like(logits);
    softcap_into(rows_of(capped), rows_of(logits), softcap);
    context->save_for_backward({logits});
    context->saved_data["softcap"] = softcap;
    return capped;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const c10::AutoGradMode disabled(false);
    const Tensor logits = context->get_saved_variables()[0];
    // Unless the graph is kept for another backward, nobody reads the logits again.
    const bool in_place = !torch::autograd::get_current_graph_task_keep_graph();
    const Tensor gradient = in_place ? logits.detach() : at::empty_like(logits);
    softcap_gradient_into(rows_of(gradient), rows_of(gradients[0].contiguous()), rows_of(logits),
                          context->saved_data["softcap"].toDouble());
    return {gradient, Tensor()};
  }
};

}  // namespace

void softcap_into(const Tensor& y, const Tensor& x, double softcap) {
  const Tensor wide = wide_number(x, softcap);
  each_part(x, wide, [&](int64_t first, int64_t count, const Tensor& tanh) {
    Tensor rows = y.narrow(0, first, count);
    at::mul_out(rows, tanh, wide);
  });
}

// Not by tanh_backward_out: on a GPU it computes in the type of the result.
void softcap_gradient_into(const Tensor& grad_x, const Tensor& grad_y, const Tensor& x, double softcap) {
  each_part(x, wide_number(x, softcap), [&](int64_t first, int64_t count, const Tensor& tanh) {
    Tensor rows = grad_x.narrow(0, first, count), steepness = tanh.square_().neg_().add_(1);
    at::mul_out(rows, grad_y.narrow(0, first, count), steepness);
  });
}

Tensor capped_logits(const Tensor& logits, double softcap) {
  if (softcap == 0) return logits;
  if (c10::GradMode::is_enabled() && logits.requires_grad()) return CappedLogits::apply(logits, softcap);
  softcap_into(rows_of(logits), rows_of(logits), softcap);
  return logits;
}

}  // namespace strata::kernels
