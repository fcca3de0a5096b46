// SPDX-License-Identifier: MIT
// OpCase: one small call of an op on which all levels must agree, with inputs in fp64.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/proof/agreement.h"
#include "kernels/runtime/level.h"
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

using at::Tensor;

struct OpCase {
  OpShape shape;     // shape that the call reports to a CallObserver
  std::string name;  // op and sizes, as a test's name
  // Tensors that gradients are computed for, fp64 on the CPU; the weights come last. They are never changed.
  std::vector<Tensor> leaves;
  size_t weights = 0;  // number of weights among the last leaves; their gradients can have destinations
  // Returns the op's floating point results. The leaves have the dtype, the device and the strides of the test.
  std::function<std::vector<Tensor>(const std::vector<Tensor>& leaves, Level level)> run;
  bool differentiable = true;
  size_t outputs = 1;
  // Width of the rows whose errors are compared, see Bounds; 0 is the last dimension.
  int64_t row_width = 0;
  // Bounds::factor of each output, then of the gradient of each leaf. Empty if all are 1.
  std::vector<double> factors = {};
  // The largest operand of the difference that a result is: for each output, then for the gradient of each leaf.
  // Empty if no difference may cancel.
  std::vector<double> operands = {};
  Variances variances = {};

  std::string op() const { return std::string(shape.op()); }
};

}  // namespace strata::kernels
