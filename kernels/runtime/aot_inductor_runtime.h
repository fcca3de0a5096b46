// SPDX-License-Identifier: MIT
// AotFunction: one function of an op's `.py` file that Inductor compiled ahead of time, called with tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "kernels/runtime/gradient_destination.h"

namespace strata::kernels {

// One width for which a package may be compiled.
struct AotWidth {
  char letter;
  int64_t size;
};

// The rule by which a package is chosen. On CPUs one package serves any width. On GPUs a package is compiled for
// exactly this width, so that Inductor can unroll and vectorize. A GPU uses the package for any width only if 32 bits
// cannot index the tensors, or
//   rows   if rows are narrow (under 256) or not a multiple of 8
//   lanes  if the number of elements is not a multiple of kLanes; their shape does not matter, see as_lanes()
//   heads  if half a head (the last width) is not a multiple of 16
//   exact  never: a package is for one set of widths, in fp16 too, and exists on GPUs only
enum class AotWidths { rows, lanes, heads, exact };

// Width of the rows into which elementwise tensors are cut, so that Inductor knows that 16-byte accesses on GPUs fit.
inline constexpr int64_t kLanes = 16;

// Each op holds its functions as function-local statics. Calls are thread-safe, and autograd does not record them.
class AotFunction {
 public:
  AotFunction(std::string_view op, std::string_view formula, std::string_view function,
              AotWidths rule = AotWidths::rows)
      : op_(op), formula_(formula), function_(function), rule_(rule) {}

  // `dtype` selects the package. Inputs are made contiguous. Throws if the function was not compiled for these inputs.
  std::vector<at::Tensor> operator()(at::ScalarType dtype, const std::vector<AotWidth>& widths,
                                     std::vector<at::Tensor> inputs) const;

 private:
  struct Loaded;
  Loaded& loaded(at::ScalarType dtype, const std::vector<AotWidth>& widths, bool any, c10::Device device) const;

  std::string_view op_, formula_, function_;
  AotWidths rule_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<Loaded>> all_;  // few: one per dtype, widths and device
};

// Makes a CPU tensor of a number that a package reads from host memory.
at::Tensor host_number(double value);
at::Tensor host_number(int64_t value);

// Views `x` as [rows, width], where width is its last dimension.
at::Tensor as_rows(const at::Tensor& x);

// Views `x` as [elements / kLanes, kLanes], or as [1, elements] if kLanes does not divide the number of elements.
at::Tensor as_lanes(const at::Tensor& x);

// Accumulates the fp32 gradient that a package returns for a weight: in the buffer `where` without a cast, or returns
// it in the dtype of the weight.
at::Tensor accumulate_wide(const at::Tensor& gradient, const at::Tensor& weight, const GradientDestination& where);

}  // namespace strata::kernels
