// SPDX-License-Identifier: MIT
// The table of dropout, its autograd and its checks of arguments, and the levels that have no file of their own. Level
// aten of dropout: on GPUs LibTorch's integer operators hash the place of each element, and several tensors of int64
// with the size of x live meanwhile. On CPUs one loop hashes and multiplies.
#include "kernels/dropout/dropout.h"

#include <ATen/ops/mul.h>

#include "kernels/dropout/dropout_formula.h"
#include "kernels/dropout/dropout_loops.h"
#include "kernels/dropout/dropout_shape.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/element_hash.h"
#include "kernels/runtime/recorded.h"
#include "kernels/runtime/torchscript_runtime.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

Tensor dropout_forward_aten(const Tensor& x, const DropoutOp::MaskSeed& mask) {
  const int64_t columns = x.size(-1);
  if (x.numel() == 0) return x.clone();
  if (on_cpu(x)) return dropout_by_loops(x, mask);
  const Tensor hash = element_hash(mask.key, mask.site, mask.first_row, x.numel() / columns, columns);
  const Tensor dropped = hash.lt(static_cast<int64_t>(mask.probability * 4294967296.0)).view(x.sizes());
  return at::mul(x, 1.0 / (1.0 - mask.probability)).masked_fill_(dropped, 0);
}

Tensor dropout_forward_torchscript(const Tensor& x, const DropoutOp::MaskSeed& mask) {
  static const Formula formula(kFormula, "dropout");
  return formula(x, mask.probability, mask.key, mask.site, mask.first_row);
}

// Returns `inputs` followed by the numbers of the mask.
std::vector<Tensor> with_mask(std::vector<Tensor> inputs, const DropoutOp::MaskSeed& mask) {
  const auto threshold = static_cast<int64_t>(mask.probability * 4294967296.0);
  for (const Tensor& number : {host_number(threshold), host_number(1.0 / (1.0 - mask.probability)), mask.key,
                               host_number(mask.site), host_number(mask.first_row)}) {
    inputs.push_back(number);
  }
  return inputs;
}

Tensor dropout_forward_aot_inductor(const Tensor& x, const DropoutOp::MaskSeed& mask) {
  static const AotFunction function(DropoutOp::kName, kFormula, "dropout_rows");
  if (x.numel() == 0) return x.clone();
  return function(x.scalar_type(), /*widths=*/{}, with_mask({as_rows(x)}, mask))[0].view(x.sizes());
}

DropoutShape shape_of(const Tensor& x) { return {.rows = row_count(x), .width = row_width(x)}; }

struct DropoutFunction : Recorded<DropoutFunction, DropoutOp> {
  static Tensor forward(AutogradContext* context, const Kernel<DropoutOp>& kernel, const Tensor& x, const Tensor& key,
                        double probability, int64_t site, int64_t first_row) {
    context->save_for_backward({key});
    return kernel.forward(x, {probability, key, site, first_row});
  }
  static variable_list backward(AutogradContext* context, const Kernel<DropoutOp>& kernel,
                                const variable_list& gradients, double probability, int64_t site, int64_t first_row) {
    const Tensor key = context->get_saved_variables()[0];
    return {kernel.backward(gradients[0], {probability, key, site, first_row})};
  }
};

void check(const Tensor& x, double probability, const Tensor& key, Level level) {
  constexpr auto op = DropoutOp::kName;
  require(probability >= 0.0 && probability < 1.0, op, level, "probability is ", probability, ", expected 0 <= p < 1");
  require(x.is_floating_point() && x.dim() >= 1, op, level, "x is ", x.scalar_type(), " ", x.sizes(),
          ", expected floating point [..., columns]");
  require(key.scalar_type() == at::kLong && key.numel() == 1 && key.device() == x.device(), op, level, "key is ",
          key.scalar_type(), " ", key.sizes(), " on ", key.device(), ", expected Long [1] on ", x.device());
}

}  // namespace

constinit const KernelTable<DropoutOp> DropoutOp::kKernels = {
    // Dropout is linear in x, so the backward applies the forward, with the same mask, to the gradient.
    .aten = {dropout_forward_aten, dropout_forward_aten},
    .torchscript = {dropout_forward_torchscript, dropout_forward_torchscript},
    .aot_inductor = {dropout_forward_aot_inductor, dropout_forward_aot_inductor},
    .triton = {dropout_forward_triton, dropout_forward_triton},
    .cuda = {dropout_forward_cuda, dropout_forward_cuda},
};

Tensor dropout(const Tensor& x, double probability, const Tensor& key, int64_t site, int64_t first_row, Level level) {
  const Kernel<DropoutOp>& kernel = DropoutOp::kKernels.at(level, x.device());
  check(x, probability, key, level);
  const Tensor key_1 = key.view({1});
  if (kernel.backward != nullptr) {
    return DropoutFunction::apply(level, shape_of(x), x, key_1, probability, site, first_row);
  }
  const CallScope scope(DropoutOp::kName, level, x, [&] { return shape_of(x); });
  return kernel.forward(x, {probability, key_1, site, first_row});
}

}  // namespace strata::kernels
