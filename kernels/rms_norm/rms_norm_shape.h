// SPDX-License-Identifier: MIT
// RmsNormShape: the sizes of rms_norm and add_rms_norm.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/norms/norm_work.h"
#include "kernels/runtime/op_shape.h"

namespace strata::kernels {

struct RmsNormShape {
  int64_t rows, width;
  bool adds = false;  // the residual is added first: add_rms_norm

  bool operator==(const RmsNormShape&) const = default;
  std::string_view op() const { return adds ? "add_rms_norm" : "rms_norm"; }
  std::string_view key() const { return "rms_norm"; }
  std::string text() const { return sizes_text({rows, width}); }
  Work forward_work(double element_bytes) const { return work().forward(element_bytes); }
  Work backward_work(double element_bytes) const { return work().backward(element_bytes); }

 private:
  NormWork work() const { return {rows, width, adds, /*vectors=*/1, /*statistics_of_row=*/1}; }
};

}  // namespace strata::kernels
