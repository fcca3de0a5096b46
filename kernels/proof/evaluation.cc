// SPDX-License-Identifier: MIT
#include "kernels/proof/evaluation.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Generator.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <limits>

#include "kernels/proof/agreement.h"
#include "kernels/runtime/gradient_destination.h"

namespace strata::kernels {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kGuard = 64;  // elements before and after a destination, which keep its alignment

// Returns the same values in the wanted layout. Vectors and scalars cannot be strided.
Tensor laid_out(const Tensor& tensor, Layout layout) {
  if (layout == Layout::unaligned) {
    return at::full({tensor.numel() + 1}, kGap, tensor.options())
        .narrow(0, 1, tensor.numel())
        .view(tensor.sizes())
        .copy_(tensor);
  }
  if (layout == Layout::contiguous || tensor.dim() < 2) return tensor;
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes[0] *= 2;
  sizes.back() += 3;
  const Tensor memory = at::full(sizes, kGap, tensor.options());
  return memory.slice(0, 0, sizes[0], /*step=*/2).narrow(-1, 1, tensor.size(-1)).copy_(tensor);
}

bool has_gradients(const OpCase& op_case, const Setting& setting) {
  return op_case.differentiable && !setting.no_gradients;
}

std::vector<Tensor> leaves_of(const OpCase& op_case, const Setting& setting) {
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < op_case.leaves.size(); ++i) {
    const bool is_weight = i >= op_case.leaves.size() - op_case.weights;
    Tensor leaf = op_case.leaves[i].to(setting.device, setting.dtype, /*non_blocking=*/false, /*copy=*/true);
    if (setting.layout != Layout::strided || !is_weight) leaf = laid_out(leaf, setting.layout).detach();
    leaves.push_back(leaf.requires_grad_(has_gradients(op_case, setting) && setting.only_leaf.value_or(i) == i));
  }
  return leaves;
}

// A buffer for the gradient of a leaf, in memory that is larger on both sides.
class GuardedBuffer {
 public:
  GuardedBuffer(const Tensor& leaf, const Setting& setting)
      : size_(leaf.numel()),
        first_(kGuard + (setting.layout == Layout::unaligned ? 1 : 0)),
        memory_(at::full({first_ + size_ + kGuard}, kBefore,
                         leaf.options().dtype(setting.destination.dtype).requires_grad(false))),
        buffer_(memory_.narrow(0, first_, size_).view(leaf.sizes())) {}

  const Tensor& buffer() const { return buffer_; }
  bool is_intact() const {
    const auto is_before = [](const Tensor& guard) { return (guard == kBefore).all().item<bool>(); };
    return is_before(memory_.narrow(0, 0, first_)) && is_before(memory_.narrow(0, first_ + size_, kGuard));
  }

 private:
  int64_t size_, first_;
  Tensor memory_, buffer_;
};

// Computes the gradients of all leaves, and returns the gradients of the outputs.
std::vector<Tensor> run_backward(const std::vector<Tensor>& outputs, const Setting& setting) {
  const std::vector<Tensor> gradients = output_gradients(outputs);
  std::vector<Tensor> roots, root_gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (setting.only_output.value_or(i) != i || !outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    root_gradients.push_back(laid_out(gradients[i].to(outputs[i].device(), outputs[i].scalar_type()), setting.layout));
  }
  if (!roots.empty()) torch::autograd::backward(roots, root_gradients);
  return root_gradients;
}

// Calls the op with other values in the memory of the leaves. Autograd does not count such a change, as it does not
// count what GPU kernels and captured graphs write.
void run_with_values(const std::vector<Tensor>& values, const OpCase& op_case, const std::vector<Tensor>& leaves,
                     Level level, const Setting& setting) {
  std::vector<Tensor> own;
  for (size_t i = 0; i < leaves.size(); ++i) {
    own.push_back(leaves[i].variable_data().clone());
    leaves[i].variable_data().copy_(values.at(i));
  }
  const std::vector<Tensor> outputs = op_case.run(leaves, level);
  if (has_gradients(op_case, setting)) run_backward(outputs, setting);
  for (size_t i = 0; i < leaves.size(); ++i) {
    leaves[i].variable_data().copy_(own[i]);
    leaves[i].mutable_grad().reset();
  }
}

}  // namespace

std::vector<Value> evaluate(const OpCase& op_case, Level level, const Setting& setting) {
  const at::AutoGradMode records(!setting.no_gradients && at::GradMode::is_enabled());
  const std::vector<Tensor> leaves = leaves_of(op_case, setting);
  if (setting.values_before != nullptr) run_with_values(*setting.values_before, op_case, leaves, level, setting);
  const size_t first_weight = leaves.size() - op_case.weights;
  std::vector<std::optional<GuardedBuffer>> buffers(leaves.size());
  if (setting.destination.given) {
    for (size_t i = first_weight; i < leaves.size(); ++i) {
      buffers[i].emplace(leaves[i], setting);
      set_gradient_destination(leaves[i], [&, i] {
        return GradientDestination{buffers[i]->buffer(), setting.destination.add};
      });
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
    TORCH_CHECK(outputs[i].device().type() == setting.device, op_case.name, ": output ", i, " is on device ",
                outputs[i].device(), ", expected ", setting.device);
    add_value("output " + std::to_string(i), outputs[i], i, operands(i));
  }
  if (!has_gradients(op_case, setting)) return values;

  const std::vector<Tensor> root_gradients = run_backward(outputs, setting);
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
    if (!buffers[i]) {
      // An undefined gradient counts as zeros, if the only output with a gradient does not depend on the leaf.
      TORCH_CHECK(gradient.defined() || setting.only_output, op_case.name, ": no ", name);
      add_value(name, gradient.defined() ? gradient : at::zeros_like(leaves[i]), outputs.size() + i, leaf_bound);
      values.back().variance = variances[outputs.size() + i];
      continue;
    }
    clear_gradient_destination(leaves[i]);
    TORCH_CHECK(!gradient.defined(), op_case.name, ": ", name, " was returned although it has a destination");
    TORCH_CHECK(buffers[i]->is_intact(), op_case.name, ": ", name, " was written beside its destination");
    add_value(name, buffers[i]->buffer(), outputs.size() + i, leaf_bound);
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
