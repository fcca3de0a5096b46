// SPDX-License-Identifier: MIT
// Where a CUDA kernel writes the gradient of a weight: straight into the buffer that it was routed to, where the kernel
// knows its dtype; otherwise into a tensor of its own, which is delivered afterwards.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "kernels/launch_check.h"
#include "kernels/weight_gradient.h"

namespace strata::kernels {

class GradientTarget {
 public:
  // `sizes` and `options` are those of the weight.
  GradientTarget(std::string_view op, at::IntArrayRef sizes, const at::TensorOptions& options,
                 const WeightGradient& into)
      : into_(into),
        direct_(into.into.defined() && into.into.is_contiguous() && into.into.scalar_type() != at::kDouble),
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
