// SPDX-License-Identifier: MIT
// LinearShape: the sizes of linear.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/activation/activation_kind.h"
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct LinearShape {
  int64_t rows, inputs, outputs;
  Activation activation = Activation::none;
  bool bias = false;

  bool operator==(const LinearShape&) const = default;
  std::string_view op() const { return "linear"; }
  std::string text() const {
    return sizes_text({rows, inputs}) + "->" + std::to_string(outputs) +
           (activation == Activation::none ? "" : " " + std::string(name(activation))) + (bias ? " bias" : "");
  }
  Work forward_work(double element_bytes) const {
    const double n = double(rows), i = double(inputs), o = double(outputs);
    return {(n * i + i * o + n * o + vector_and_pre_activation()) * element_bytes, 2 * n * i * o};
  }
  Work backward_work(double element_bytes) const {
    const double n = double(rows), i = double(inputs), o = double(outputs);
    return {(2 * n * i + 2 * i * o + n * o + vector_and_pre_activation()) * element_bytes, 4 * n * i * o};
  }

 private:
  double vector_and_pre_activation() const {
    return (bias ? double(outputs) : 0) + (activation == Activation::none ? 0 : double(rows) * double(outputs));
  }
};

}  // namespace strata::kernels
