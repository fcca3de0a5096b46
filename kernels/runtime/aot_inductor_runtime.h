// SPDX-License-Identifier: MIT
// AotFunction: one function of an op's `.py` file, compiled ahead of time by Inductor and called with tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "kernels/runtime/aot_inductor_package.h"
#include "kernels/runtime/weight_gradient.h"

namespace strata::kernels {

// One of the widths that a package may be made for.
struct AotWidth {
  char letter;
  int64_t size;
};

// Which widths a package is asked for. On CPUs one package is for any width; on GPUs one for this very width, which
// Inductor unrolls and vectorizes, but the package for any width where 32 bits cannot index the tensors, and
//   rows   where rows are narrow (under 256) or not a multiple of 8
//   lanes  where kLanes does not divide the elements, whose shape does not matter: see as_lanes()
//   heads  where half a head (the last width) is not a multiple of 16
enum class AotWidths { rows, lanes, heads };

// 16-byte accesses of GPUs need to know that there is a whole number of them.
inline constexpr int64_t kLanes = 16;

// Adapters hold it as a function-local static. Calls are thread-safe and not differentiated.
class AotFunction {
 public:
  AotFunction(std::string_view op, std::string_view formula, std::string_view function,
              AotWidths rule = AotWidths::rows)
      : op_(op), formula_(formula), function_(function), rule_(rule) {}

  // `dtype` is the package's. Inputs are made contiguous, and are refused where the function was not made for them.
  std::vector<at::Tensor> operator()(at::ScalarType dtype, const std::vector<AotWidth>& widths,
                                     std::vector<at::Tensor> inputs) const;

 private:
  struct Loaded;
  Loaded& loaded(at::ScalarType dtype, const std::vector<AotWidth>& widths, bool any, c10::Device device) const;

  std::string_view op_, formula_, function_;
  AotWidths rule_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<Loaded>> all_;  // a handful: one for each dtype, widths and device
};

// A number that a package takes from the host's memory.
at::Tensor host_number(double value);
at::Tensor host_number(int64_t value);

// [rows, width] with the last dimension of `x`.
at::Tensor as_rows(const at::Tensor& x);

// [elements / kLanes, kLanes], or [1, elements] where that does not divide.
at::Tensor as_lanes(const at::Tensor& x);

// What packages return for a weight is wide: into its buffer as it is, or to autograd in the weight's dtype.
at::Tensor deliver_wide(const at::Tensor& gradient, const at::Tensor& weight, const WeightGradient& where);

}  // namespace strata::kernels
