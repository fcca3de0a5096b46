// SPDX-License-Identifier: MIT
// Where a kernel writes the gradient of a weight: straight into the buffer that it was routed to, where the kernel
// knows its dtype; otherwise into a tensor of its own, which is delivered afterwards.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "kernels/cuda/launch_check.h"
#include "kernels/runtime/weight_gradient.h"

namespace strata::kernels {

// Whether kernels write into the buffer itself.
inline bool is_written_directly(const WeightGradient& gradient) {
  const Tensor& into = gradient.into;
  return into.defined() && into.is_contiguous() && into.scalar_type() != at::kDouble;
}

class GradientTarget {
 public:
  // `sizes` and `options` are those of the weight.
  GradientTarget(std::string_view op, at::IntArrayRef sizes, const at::TensorOptions& options,
                 const WeightGradient& into)
      : into_(into),
        direct_(is_written_directly(into)),
        tensor_(direct_ ? into.into : at::empty(sizes, options)),
        type_(cuda_type(op, "the weight's gradient", tensor_)) {}

  void* data() const { return tensor_.data_ptr(); }
  CudaType type() const { return type_; }
  bool add() const { return direct_ && into_.add; }

  // After the launch: what the op's backward returns.
  Tensor deliver() const { return direct_ ? Tensor() : kernels::deliver(tensor_, into_); }

 private:
  WeightGradient into_;
  bool direct_;
  Tensor tensor_;
  CudaType type_;
};

}  // namespace strata::kernels
