// SPDX-License-Identifier: MIT
// Runs an op case at a level. Returns its results and all gradients as named tensors, fp64 on the CPU.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/proof/agreement.h"
#include "kernels/proof/op_case.h"

namespace strata::kernels {

// Memory layout of inputs and output gradients. strided: matrices are slices of larger ones, with every second row and
// some of the columns. unaligned: contiguous, but one element after an aligned address. The memory between and before
// the elements holds NaN.
enum class Layout { contiguous, strided, unaligned };

// Destination of weight gradients: autograd, or, if it is given, buffers that are overwritten or added to.
struct Destination {
  bool given = false, add = false;
  at::ScalarType dtype = at::kFloat;
};

struct Setting {
  at::ScalarType dtype = at::kDouble;
  c10::DeviceType device = c10::kCPU;
  Layout layout = Layout::contiguous;
  Destination destination = {};
  // If set, only this leaf requires a gradient, and only this output has one. Ops take another path for gradients that
  // are not needed.
  std::optional<size_t> only_leaf = {}, only_output = {};
  // If set, the op is called as it is without training: no leaf requires a gradient, and autograd records nothing.
  bool no_gradients = false;
  // If set, the op is called before with these values of the leaves, in the same memory. Not owned.
  const std::vector<Tensor>* values_before = nullptr;
  // If set, values have the variance of the errors of kernels of this type.
  std::optional<at::ScalarType> variances_of = {};
};

struct Value {
  std::string name;        // "output 0", "gradient of leaf 1"
  Tensor value;            // fp64 on the CPU
  at::ScalarType dtype;    // type in which it was computed
  double operands;         // largest operand if it is a difference; 0 if nothing cancels
  double factor;           // Bounds::factor
  int64_t row_width;       // Bounds::row_width
  Variance variance = {};  // Expected::variance
};

// True for the name of a gradient, false for an output.
inline bool is_gradient(std::string_view name) { return name.starts_with("gradient"); }

inline constexpr double kBefore = 1.0;  // value of a destination before a gradient is written or added

// Returns what is allowed for a value of an op.
inline Bounds bounds_of(const Value& value, const Tolerance& tolerance) {
  return {.dtype = value.dtype,
          .factor = value.factor,
          .roundings = tolerance.roundings,
          .largest = value.operands,
          .row_width = value.row_width};
}

// Throws a c10::Error if a result is on another device, or if memory beside a destination is written.
std::vector<Value> evaluate(const OpCase& op_case, Level level, const Setting& setting);

// Returns the random gradients of such outputs, fp64. They are the same for outputs of the same sizes.
std::vector<Tensor> output_gradients(const std::vector<Tensor>& outputs);

// Returns the case with its leaves rounded to `dtype` but stored in fp64, as input of the reference.
OpCase rounded(const OpCase& op_case, at::ScalarType dtype);

// How many calls a level makes before its bits repeat: TorchScript optimizes a function for the calls that it has seen.
inline int calls_before_bits_repeat(Level level) { return level == Level::torchscript ? 3 : 0; }

}  // namespace strata::kernels
