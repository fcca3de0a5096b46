// SPDX-License-Identifier: MIT
// ActivationShape: the sizes of activation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/activation/activation_kind.h"
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct ActivationShape {
  int64_t rows, width;
  Activation kind;

  bool operator==(const ActivationShape&) const = default;
  std::string_view op() const { return "activation"; }
  std::string text() const { return sizes_text({rows, width}) + " " + std::string(name(kind)); }
  Work forward_work(double element_bytes) const { return {2 * double(rows) * double(width) * element_bytes, 0}; }
  Work backward_work(double element_bytes) const { return {3 * double(rows) * double(width) * element_bytes, 0}; }
};

}  // namespace strata::kernels
