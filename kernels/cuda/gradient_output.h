// SPDX-License-Identifier: MIT
// GradientOutput: the tensor to which a kernel writes the gradient of a weight. It is the destination of the
// gradient if the kernel supports its dtype, otherwise a new tensor that is accumulated there after the launch.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "kernels/cuda/launch_check.h"
#include "kernels/cuda/weight_gradient.h"
#include "kernels/runtime/gradient_destination.h"

namespace strata::kernels {

// True if kernels write directly into the destination: it is a contiguous buffer and not fp64.
inline bool is_written_directly(const GradientDestination& gradient) {
  const Tensor& into = gradient.into;
  return into.defined() && into.is_contiguous() && into.scalar_type() != at::kDouble;
}

class GradientOutput {
 public:
  // `sizes` and `options` describe the weight. `into` comes from take_gradient_destination().
  GradientOutput(std::string_view op, at::IntArrayRef sizes, const at::TensorOptions& options,
                 const GradientDestination& into)
      : into_(into),
        direct_(is_written_directly(into)),
        tensor_(direct_ ? into.into : at::empty(sizes, options)),
        type_(cuda_type(op, "the weight's gradient", tensor_)) {}

  void* data() const { return tensor_.data_ptr(); }
  CudaType type() const { return type_; }
  bool add() const { return direct_ && into_.add; }
  WeightGradient target() const { return {data(), type(), add()}; }

  // Call after the launch. Returns the gradient for the op's backward to return to autograd: undefined if it has
  // a destination.
  Tensor accumulate() const { return direct_ ? Tensor() : kernels::accumulate(tensor_, into_); }

 private:
  GradientDestination into_;
  bool direct_;
  Tensor tensor_;
  CudaType type_;
};

}  // namespace strata::kernels
