// SPDX-License-Identifier: MIT
// An op at a shape, ready to run: its inputs on a device in a dtype, and which of them can be split into parts of rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "kernels/proof/agreement.h"
#include "kernels/runtime/level.h"
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

using at::Tensor;

// The inputs of one call. Gradients are computed for leaves. Constants are indices, tables, scalars.
struct Inputs {
  std::vector<Tensor> leaves, constants;
  int64_t first_row = 0;  // number of the first row in the whole, because dropout masks depend on it
};

struct Workload {
  OpShape shape;
  at::ScalarType dtype = at::kFloat;
  Tolerance tolerance = {};
  Inputs inputs = {};
  // How many of the first leaves, constants and results are split into rows along dimension 0. The rest are not split.
  // A result or a gradient that is not split is a sum over all rows.
  size_t split_leaves = 1, split_constants = 0, split_results = 1;
  int64_t row_elements = 1;          // elements of the largest tensor that the formula computes for one such row
  int64_t row_width = 0;             // Bounds::row_width
  std::vector<double> factors = {};  // Bounds::factor of each result, then of each gradient; empty if all are 1
  bool differentiable = true;
  bool timed_whole = false;    // forward and backward are timed together: some levels compute gradients in the forward
  bool deterministic = false;  // run with at::globalContext().deterministicAlgorithms()
  std::function<std::vector<Tensor>(const Inputs& inputs, Level level)> run = {};
  // For ops whose formula holds more than inputs and results for one such row: returns the results of the formula, then
  // the gradients of the leaves, from tensors of at most `elements` elements each. If it is empty, run() is called.
  std::function<std::vector<Tensor>(const Inputs& inputs, const std::vector<Tensor>& result_gradients,
                                    int64_t elements)>
      formula = {};
  Variances variances = {};

  // For ops whose backward may overwrite its incoming gradient. In a model nothing else holds this gradient, so the
  // backward overwrites it. A benchmark that repeats the backward holds the gradient, so that autograd does not
  // overwrite it. has_backward: whether the level has such a backward. backward_in_place: runs it.
  std::function<bool(Level level)> has_backward = {};
  std::function<void(Tensor gradient, const Inputs& inputs, Level level)> backward_in_place = {};
};

// Returns a copy of the inputs. Its leaves require gradients if the op has them.
Inputs fresh_inputs(const Workload& workload);

// Returns the values of the tensor from back to front, with its first value replaced. They are as random, and a sum
// over all of them differs.
Tensor other_values(const Tensor& tensor);

// Returns the workload with other values of its leaves.
Workload with_other_values(Workload workload);

// In its scope, ops use deterministic algorithms if the workload asks for it, and an op without one throws. Level
// torchscript only warns, because LibTorch refuses its products without CUBLAS_WORKSPACE_CONFIG. New tensors are not
// filled with NaN.
class DeterministicScope {
 public:
  DeterministicScope(const Workload& workload, Level level);
  ~DeterministicScope();
  DeterministicScope(const DeterministicScope&) = delete;
  DeterministicScope& operator=(const DeterministicScope&) = delete;

 private:
  bool before_;
};

// Returns random gradients for such results, the same in every run on the same device.
std::vector<Tensor> random_gradients(const std::vector<Tensor>& results);

}  // namespace strata::kernels
