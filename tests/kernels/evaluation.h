// SPDX-License-Identifier: MIT
// Runs an op case at a level: its results and all gradients, as named tensors in fp64 on the CPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/kernels/op_cases.h"

namespace strata::kernels {

// How inputs and the gradients of outputs lie in memory. strided: a row and a column of every matrix are left out.
// unaligned: contiguous, but one element behind an aligned address.
enum class Layout { contiguous, strided, unaligned };

// Where the gradients of the weights go: to autograd, or into buffers that are overwritten or added to.
struct Routing {
  bool routed = false, add = false;
  at::ScalarType dtype = at::kFloat;
};

struct Setting {
  at::ScalarType dtype = at::kDouble;
  c10::DeviceType device = c10::kCPU;
  Layout layout = Layout::contiguous;
  Routing routing = {};
  // Only this leaf asks for a gradient, only this output has one: what nobody needs takes another way through an op.
  std::optional<size_t> only_leaf = {}, only_output = {};
};

struct Value {
  std::string name;      // "output 0", "gradient of leaf 1"
  Tensor value;          // fp64 on the CPU
  at::ScalarType dtype;  // that it was made in
  double operands;       // largest of the numbers whose difference it is; 0 where nothing cancels
};

std::vector<Value> evaluate(const OpCase& op_case, Level level, const Setting& setting);

// The random numbers that the gradients of such outputs are; the same for outputs of the same sizes. fp64.
std::vector<Tensor> output_gradients(const std::vector<Tensor>& outputs);

// The case with its leaves rounded to `dtype`, kept in fp64: what the reference is computed from.
OpCase rounded(const OpCase& op_case, at::ScalarType dtype);

}  // namespace strata::kernels
