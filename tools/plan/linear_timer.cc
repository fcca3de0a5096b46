// SPDX-License-Identifier: MIT
#include "tools/plan/linear_timer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/runtime/gradient_destination.h"
#include "modules/linear.h"
#include "modules/model_sources.h"
#include "modules/scope.h"
#include "tools/bench/kernels/timer.h"

namespace strata::tools {
namespace {

using at::Tensor;

// A parameter whose gradient goes to a buffer of its own.
class TimedParameter {
 public:
  TimedParameter(const Tensor& values) : value_(values.detach().requires_grad_()) {  // NOLINT: values are parameters
    const Tensor into = at::empty(value_.sizes(), value_.options().dtype(at::kFloat).requires_grad(false));
    kernels::set_gradient_destination(value_, [into] { return kernels::GradientDestination{into, /*add=*/false}; });
  }
  ~TimedParameter() { kernels::clear_gradient_destination(value_); }
  TimedParameter(const TimedParameter&) = delete;
  TimedParameter& operator=(const TimedParameter&) = delete;

  const Tensor& value() const { return value_; }

 private:
  Tensor value_;
};

struct Input {
  Tensor x, grad_y;
};

std::vector<Input> rotating_inputs(const kernels::LinearShape& shape, const at::TensorOptions& options) {
  const auto element = static_cast<int64_t>(options.dtype().itemsize());
  const int64_t sets = rotating_sets(shape.rows * (shape.inputs + shape.outputs) * element, options.device());
  std::vector<Input> inputs;
  for (int64_t i = 0; i < sets; ++i) {
    inputs.push_back({at::randn({shape.rows, shape.inputs}, options).requires_grad_(),
                      at::randn({shape.rows, shape.outputs}, options)});
  }
  return inputs;
}

}  // namespace

trainer::LinearTimes time_linear(const std::string& module, const kernels::LinearShape& shape,
                                 const modules::KernelsConfig& kernels, const modules::LinearFormatsConfig* formats,
                                 at::ScalarType dtype, at::Device device) {
  const at::TensorOptions options = at::device(device).dtype(dtype);
  const TimedParameter weight(
      at::randn({shape.outputs, shape.inputs}, options).div_(std::sqrt(static_cast<double>(shape.inputs))));
  std::optional<TimedParameter> bias;
  if (shape.bias) bias.emplace(at::randn({shape.outputs}, options));
  const auto history = [&] {
    const at::TensorOptions number = options.dtype(at::kFloat);
    return kernels::DelayedScale{.past = at::full({1}, 4, number), .present = at::zeros({1}, number)};
  };
  modules::BindingSource source(
      [&](const std::string& name) { return name.ends_with("bias") ? bias.value().value() : weight.value(); },
      [&](const std::string&) {
        return kernels::DelayedScales{history(), history(), history()};
      });
  const modules::Linear layer(
      modules::Scope(source, kernels, formats) / module,
      {.outputs = shape.outputs, .inputs = shape.inputs, .has_bias = shape.bias, .activation = shape.activation});
  const std::vector<Input> inputs = rotating_inputs(shape, options);
  std::vector<Tensor> results(inputs.size());
  const auto set_of = [&](int64_t call) { return static_cast<size_t>(call) % inputs.size(); };
  trainer::LinearTimes times;
  times.forward = 1e6 * median_seconds(device, [&](int64_t i) { results[set_of(i)] = layer(inputs[set_of(i)].x); });
  for (size_t set = 0; set < inputs.size(); ++set) results[set] = layer(inputs[set].x);
  times.backward = 1e6 * median_seconds(device, [&](int64_t i) {
                     const Input& input = inputs[set_of(i)];
                     input.x.mutable_grad().reset();  // otherwise the next gradient is added to it
                     results[set_of(i)].backward(input.grad_y, /*retain_graph=*/true);
                   });
  return times;
}

}  // namespace strata::tools
