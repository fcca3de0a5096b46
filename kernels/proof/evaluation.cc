// SPDX-License-Identifier: MIT
#include "kernels/proof/evaluation.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Generator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "kernels/proof/agreement.h"
#include "kernels/runtime/gradient_destination.h"

namespace strata::kernels {
namespace {

// Returns the same values in the wanted layout. Vectors and scalars cannot be strided.
Tensor laid_out(const Tensor& tensor, Layout layout) {
  if (layout == Layout::unaligned) {
    return at::empty({tensor.numel() + 1}, tensor.options())
        .narrow(0, 1, tensor.numel())
        .view(tensor.sizes())
        .copy_(tensor);
  }
  if (layout == Layout::contiguous || tensor.dim() < 2) return tensor;
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes[0] *= 2;
  sizes.back() += 3;
  const Tensor memory = at::empty(sizes, tensor.options());
  return memory.slice(0, 0, sizes[0], /*step=*/2).narrow(-1, 1, tensor.size(-1)).copy_(tensor);
}

std::vector<Tensor> leaves_of(const OpCase& op_case, const Setting& setting) {
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < op_case.leaves.size(); ++i) {
    const bool is_weight = i >= op_case.leaves.size() - op_case.weights;
    Tensor leaf = op_case.leaves[i].to(setting.device, setting.dtype, /*non_blocking=*/false, /*copy=*/true);
    if (setting.layout != Layout::strided || !is_weight) leaf = laid_out(leaf, setting.layout).detach();
    leaves.push_back(leaf.requires_grad_(op_case.differentiable && setting.only_leaf.value_or(i) == i));
  }
  return leaves;
}

}  // namespace

std::vector<Value> evaluate(const OpCase& op_case, Level level, const Setting& setting) {
  const std::vector<Tensor> leaves = leaves_of(op_case, setting);
  const size_t first_weight = leaves.size() - op_case.weights;
  std::vector<Tensor> buffers(leaves.size());
  if (setting.destination.given) {
    for (size_t i = first_weight; i < leaves.size(); ++i) {
      const auto options = leaves[i].options().dtype(setting.destination.dtype).requires_grad(false);
      const Tensor buffer = at::full(leaves[i].sizes(), kBefore, options);
      buffers[i] = setting.layout == Layout::unaligned ? laid_out(buffer, setting.layout) : buffer;
      set_gradient_destination(leaves[i], [&, i] { return GradientDestination{buffers[i], setting.destination.add}; });
    }
  }

  std::vector<Value> values;
  const auto add_value = [&](const std::string& name, const Tensor& tensor, size_t place, double operands) {
    const double factor = op_case.factors.empty() ? 1.0 : op_case.factors.at(place);
    values.push_back(
        {name, tensor.detach().to(at::kCPU, at::kDouble), tensor.scalar_type(), operands, factor, op_case.row_width});
  };
  const std::vector<Tensor> outputs = op_case.run(leaves, level);
  const auto operands = [&](size_t of) { return op_case.operands.empty() ? 0.0 : op_case.operands.at(of); };
  for (size_t i = 0; i < outputs.size(); ++i) {
    add_value("output " + std::to_string(i), outputs[i], i, operands(i));
  }
  if (!op_case.differentiable) return values;

  const std::vector<Tensor> gradients = output_gradients(outputs);
  std::vector<Tensor> roots, root_gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (setting.only_output.value_or(i) != i || !outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    root_gradients.push_back(laid_out(gradients[i].to(outputs[i].device(), outputs[i].scalar_type()), setting.layout));
  }
  if (!roots.empty()) torch::autograd::backward(roots, root_gradients);
  std::vector<Variance> variances(outputs.size() + leaves.size());
  if (setting.variances_of && op_case.variances) {
    std::vector<Tensor> inputs;
    for (const Tensor& leaf : leaves) inputs.push_back(leaf.detach());
    variances = op_case.variances(inputs, root_gradients, *setting.variances_of, /*elements=*/int64_t{1} << 20);
    for (size_t i = 0; i < outputs.size(); ++i) values[i].variance = variances[i];
  }
  double largest_gradient = 0.0;
  for (const Tensor& gradient : root_gradients) largest_gradient = std::max(largest_gradient, largest(gradient));
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].requires_grad()) continue;
    const std::string name = "gradient of leaf " + std::to_string(i);
    const Tensor& gradient = leaves[i].grad();
    const double leaf_bound = largest_gradient * operands(outputs.size() + i);
    if (!buffers[i].defined()) {
      // An undefined gradient counts as zeros, if the only output with a gradient does not depend on the leaf.
      TORCH_CHECK(gradient.defined() || setting.only_output, op_case.name, ": no ", name);
      add_value(name, gradient.defined() ? gradient : at::zeros_like(leaves[i]), outputs.size() + i, leaf_bound);
      values.back().variance = variances[outputs.size() + i];
      continue;
    }
    clear_gradient_destination(leaves[i]);
    TORCH_CHECK(!gradient.defined(), op_case.name, ": ", name, " was returned although it has a destination");
    add_value(name, buffers[i], outputs.size() + i, leaf_bound);
  }
  return values;
}

std::vector<Tensor> output_gradients(const std::vector<Tensor>& outputs) {
  std::vector<std::vector<int64_t>> sizes;
  for (const Tensor& output : outputs) sizes.push_back(output.sizes().vec());
  // Levels and dtypes of a case are evaluated one after another, and drawing takes longer than most ops.
  static std::vector<std::vector<int64_t>> last_sizes;
  static std::vector<Tensor> last;
  if (sizes != last_sizes) {
    last.clear();
    auto generator = at::detail::createCPUGenerator(/*seed_val=*/17);
    for (const auto& size : sizes) {
      // The values are rounded to bf16, so that they are the same in every dtype.
      last.push_back(at::randn(size, generator, at::kDouble).to(at::kBFloat16).to(at::kDouble));
    }
    last_sizes = sizes;
  }
  std::vector<Tensor> gradients;
  for (const Tensor& gradient : last) gradients.push_back(gradient.clone());
  return gradients;
}

OpCase rounded(const OpCase& op_case, at::ScalarType dtype) {
  OpCase result = op_case;
  for (Tensor& leaf : result.leaves) leaf = leaf.to(dtype).to(at::kDouble);
  return result;
}

}  // namespace strata::kernels
