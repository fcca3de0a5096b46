// SPDX-License-Identifier: MIT
// The table of embedding, its autograd and its checks of arguments, and the levels that have no file of their own.
// Level aten of embedding: at::embedding, which copies a row of the weight for each index. at::embedding_dense_backward
// returns the whole gradient of the weight, which is then added to the gradient buffer in a second pass.
#include "kernels/embedding/embedding.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>

#include <limits>
#include <vector>

#include "kernels/embedding/embedding_formula.h"
#include "kernels/embedding/embedding_shape.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/recorded.h"
#include "kernels/runtime/torchscript_runtime.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();

Tensor embedding_forward_aten(const Tensor& indices, const Tensor& weight) { return at::embedding(weight, indices); }

Tensor embedding_backward_aten(const Tensor& grad_y, const Tensor& indices, int64_t vocabulary,
                               const GradientDestination& into) {
  return accumulate(at::embedding_dense_backward(grad_y, indices, vocabulary, /*padding_idx=*/-1,
                                                 /*scale_grad_by_freq=*/false),
                    into);
}

Tensor embedding_forward_torchscript(const Tensor& indices, const Tensor& weight) {
  static const Formula formula(kFormula, "embedding");
  return formula(indices, weight);
}

// Checks indices on CPUs, because generated code throws from its parallel loop there, which ends the program. On GPUs a
// bad index stops the kernel, as ATen's does.
void check_range(const Tensor& indices, int64_t vocabulary) {
  if (!indices.is_cpu() || indices.numel() == 0) return;
  const auto [smallest, largest] = at::aminmax(indices);
  const int64_t first = smallest.item<int64_t>(), last = largest.item<int64_t>();
  TORCH_CHECK_INDEX(first >= 0 && last < vocabulary, EmbeddingOp::kName, "/aot_inductor: indices go from ", first,
                    " to ", last, ", expected from 0 to ", vocabulary - 1);
}

Tensor embedding_forward_aot_inductor(const Tensor& indices, const Tensor& weight) {
  static const AotFunction function(EmbeddingOp::kName, kFormula, "embedding");
  const int64_t width = weight.size(1);
  check_range(indices, weight.size(0));
  std::vector<int64_t> shape = indices.sizes().vec();
  shape.push_back(width);
  return function(weight.scalar_type(), {{'d', width}}, {indices.flatten(), weight})[0].view(shape);
}

Tensor embedding_backward_aot_inductor(const Tensor& grad_y, const Tensor& indices, int64_t vocabulary,
                                       const GradientDestination& into) {
  static const AotFunction function(EmbeddingOp::kName, kFormula, "embedding_gradient");
  const Tensor rows = at::empty({vocabulary}, indices.options().dtype(at::kBool));  // only its size is used
  // LibTorch's kernel counts elements in 32 bits, so it is called for some columns at a time.
  const int64_t pieces = grad_y.numel() / kMostElements + 1;
  std::vector<Tensor> columns = as_rows(grad_y).chunk(pieces, 1);
  for (Tensor& piece : columns) {
    piece = function(grad_y.scalar_type(), /*widths=*/{}, {piece.contiguous(), indices.flatten(), rows})[0];
  }
  return accumulate(columns.size() == 1 ? columns[0] : at::cat(columns, 1), into);
}

EmbeddingShape shape_of(const Tensor& indices, const Tensor& weight) {
  return {.rows = indices.numel(), .width = weight.size(1), .vocabulary = weight.size(0)};
}

struct EmbeddingFunction : Recorded<EmbeddingFunction, EmbeddingOp> {
  static Tensor forward(AutogradContext* context, const Kernel<EmbeddingOp>& kernel, const Tensor& weight,
                        const Tensor& indices) {
    context->save_for_backward({weight, indices});
    return kernel.forward(indices, weight);
  }
  static variable_list backward(AutogradContext* context, const Kernel<EmbeddingOp>& kernel,
                                const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &weight = saved[0], &indices = saved[1];
    return {kernel.backward(gradients[0], indices, weight.size(0), take_gradient_destination(weight))};
  }
};

}  // namespace

constinit const KernelTable<EmbeddingOp> EmbeddingOp::kKernels = {
    .aten = {embedding_forward_aten, embedding_backward_aten},
    .torchscript = {embedding_forward_torchscript, nullptr},
    .aot_inductor = {embedding_forward_aot_inductor, embedding_backward_aot_inductor},
    .triton = {embedding_forward_triton, embedding_backward_triton},
    .cuda = {embedding_forward_cuda, embedding_backward_cuda},
};

Tensor embedding(const Tensor& indices, const Tensor& weight, Level level) {
  constexpr auto op = EmbeddingOp::kName;
  const Kernel<EmbeddingOp>& kernel = EmbeddingOp::kKernels.at(level, weight.device());
  require(indices.scalar_type() == at::kLong && indices.device() == weight.device(), op, level, "indices are ",
          indices.scalar_type(), " on ", indices.device(), ", expected Long on ", weight.device(), " like weight");
  require(weight.is_floating_point() && weight.dim() == 2, op, level, "weight is ", weight.scalar_type(), " ",
          weight.sizes(), ", expected floating point [V, D]");
  if (kernel.is_recorded()) {
    return EmbeddingFunction::apply(level, shape_of(indices, weight), weight, indices);
  }
  const CallScope scope(op, level, weight, [&] { return shape_of(indices, weight); });
  return kernel.forward(indices, with_gradient_destination(weight));
}

}  // namespace strata::kernels
