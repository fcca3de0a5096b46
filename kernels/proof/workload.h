// SPDX-License-Identifier: MIT
// An op at a shape, ready to run: its inputs on a device in a dtype, and which of them are made of rows that can be
// looked at in parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "kernels/proof/op_shape.h"
#include "kernels/runtime/level.h"

namespace strata::kernels {

using at::Tensor;

// The inputs of one call. Leaves are what gradients are taken of; constants are indices, tables, scalars.
struct Inputs {
  std::vector<Tensor> leaves, constants;
  int64_t first_row = 0;  // of these rows in the whole: dropout's masks depend on it
};

struct Workload {
  OpShape shape;
  at::ScalarType dtype;
  Inputs inputs;
  // The first so many leaves, constants and results are split along dimension 0 when rows are; the others are whole,
  // and results (and gradients) that are whole are sums over all rows.
  size_t split_leaves = 1, split_constants = 0, split_results = 1;
  bool differentiable = true;
  bool overwrites = false;   // an op that may destroy its leaves
  bool timed_whole = false;  // forward and backward together: some levels make the gradients in the forward
  std::function<std::vector<Tensor>(const Inputs& inputs, Level level)> run;

  // Of an op whose backward turns a gradient in place when nobody else holds it, as nobody does in a model but
  // somebody does who asks for the same backward again and again: the backward of a level that has one of its own.
  std::function<bool(Level level)> has_backward = {};
  std::function<void(Tensor gradient, const Inputs& inputs, Level level)> backward_in_place = {};
};

// Random inputs, the same in every run on the same device.
Workload make_workload(const OpShape& shape, at::ScalarType dtype, at::Device device);

// Leaves of their own, which want gradients where the op has them.
Inputs fresh_inputs(const Workload& workload);

// While it lives, LibTorch and what asks it take deterministic algorithms where the shape wants that; or fail, but for
// the products of torchscript, which LibTorch refuses without a variable of the environment.
class DeterministicScope {
 public:
  DeterministicScope(const OpShape& shape, Level level);
  ~DeterministicScope();
  DeterministicScope(const DeterministicScope&) = delete;
  DeterministicScope& operator=(const DeterministicScope&) = delete;

 private:
  bool before_;
};

// Random numbers that stand for the gradients of such results, the same in every run on the same device.
std::vector<Tensor> random_gradients(const std::vector<Tensor>& results);

}  // namespace strata::kernels
