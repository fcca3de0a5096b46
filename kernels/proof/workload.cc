// SPDX-License-Identifier: MIT
#include "kernels/proof/workload.h"

#include <ATen/Context.h>
#include <ATen/ops/randn_like.h>

namespace strata::kernels {

Inputs fresh_inputs(const Workload& workload) {
  Inputs inputs = workload.inputs;
  for (Tensor& leaf : inputs.leaves) leaf = leaf.clone().requires_grad_(workload.differentiable);
  return inputs;
}

Tensor other_values(const Tensor& tensor) {
  const int64_t count = tensor.numel();
  const Tensor values = tensor.reshape({-1}).flip(0);
  if (count > 1) values.narrow(0, 0, 1).copy_(values.narrow(0, count - 1, 1));
  return values.view(tensor.sizes());
}

Workload with_other_values(Workload workload) {
  for (Tensor& leaf : workload.inputs.leaves) leaf = other_values(leaf);
  return workload;
}

DeterministicScope::DeterministicScope(const Workload& workload, Level level)
    : before_(at::globalContext().deterministicAlgorithms()) {
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // filling would count in the time
  if (!workload.deterministic) return;
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/level == Level::torchscript);
}

DeterministicScope::~DeterministicScope() {
  at::globalContext().setDeterministicAlgorithms(before_, /*warn_only=*/false);
}

std::vector<Tensor> random_gradients(const std::vector<Tensor>& results) {
  at::manual_seed(2);
  std::vector<Tensor> gradients;
  for (const Tensor& result : results) gradients.push_back(at::randn_like(result.detach()));
  return gradients;
}

}  // namespace strata::kernels
