// SPDX-License-Identifier: MIT
#include "kernels/cross_entropy/softcap.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
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

// Calls `compute` with the first row and the number of rows of each part of x, and with tanh(x / softcap) of the part
// in fp32 or wider, which it may overwrite. Copies convert types: on CPUs other operations need a tensor more for that.
template <class Compute>
void each_part(const Tensor& x, double softcap, const Compute& compute) {
  const int64_t rows = std::max<int64_t>(kElements / std::max<int64_t>(x.size(1), 1), 1);
  const auto wide = x.options().dtype(c10::promoteTypes(x.scalar_type(), at::kFloat));
  const Tensor memory = at::empty({std::min(rows, x.size(0)), x.size(1)}, wide);
  for (int64_t first = 0; first < x.size(0); first += rows) {
    const int64_t count = std::min(rows, x.size(0) - first);
    const Tensor part = memory.narrow(0, 0, count);
    compute(first, count, part.copy_(x.narrow(0, first, count)).div_(softcap).tanh_());
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
  each_part(x, softcap, [&](int64_t first, int64_t count, const Tensor& tanh) {
    y.narrow(0, first, count).copy_(tanh.mul_(softcap));
  });
}

// Not by tanh_backward_out: on a GPU it computes in the type of the result.
void softcap_gradient_into(const Tensor& grad_x, const Tensor& grad_y, const Tensor& x, double softcap) {
  each_part(x, softcap, [&](int64_t first, int64_t count, const Tensor& tanh) {
    const Tensor& steepness = tanh.square_().neg_().add_(1);
    grad_x.narrow(0, first, count).copy_(steepness.mul_(grad_y.narrow(0, first, count)));
  });
}

Tensor capped_logits(const Tensor& logits, double softcap) {
  if (softcap == 0) return logits;
  if (c10::GradMode::is_enabled() && logits.requires_grad()) return CappedLogits::apply(logits, softcap);
  softcap_into(rows_of(logits), rows_of(logits), softcap);
  return logits;
}

}  // namespace strata::kernels
